"""The screen with the fake supervisor, in a terminal: `python -m tests.tui.play [KIND]`; `fleet_of` names the kinds."""

from __future__ import annotations

import asyncio
import os
import sys

from msgspec import structs

from mission_tui.fleet.events.marginal_gain import MarginalGain
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunGain
from tests.tui.fake_client import FakeClient
from tests.tui.fleets import ENDED, LIVE, NAN_FINDING, NOW, a_fleet, a_run, ended, queued


def fleet_of(kind: str) -> FleetSnapshot:
    """The fleet that an argument names."""
    if kind == "empty":
        return a_fleet(())
    if kind == "full":
        gain = MarginalGain(NOW - 60.0, "joined", "costs", 2, 1, 38_400.0, 36_900.0, -0.04, -0.07, -0.01, 96.0, "cores")
        fleet = a_fleet((LIVE[0], structs.replace(LIVE[1], payoff=gain), queued("beast-0c1d"), *ENDED))
        return structs.replace(fleet, paid=(RunGain(LIVE[1].id, LIVE[1].name, gain),))
    if kind == "nogpu":
        return a_fleet(gpus=())
    if kind == "hostile":
        return a_fleet((a_run("\x1b]0;title\x07"), a_run("[/]"), a_run("\x1b]52;c;aGk=\x07\u202e")))
    if kind == "falls-ill":
        return a_fleet((a_run("sick-11c0"),))
    if kind in ("many", "flood"):
        live = tuple(a_run(f"run-{n:04d}") for n in range(16))
        return a_fleet(live + tuple(ended(f"old-{n:04d}", 10 + n) for n in range(200)))
    return a_fleet()


async def change(client: FakeClient) -> None:
    """Every run advances ten times a second, and the second one's name says how often."""
    for revision in range(2, 10_000):
        names = ("run-0000", f"now-{revision:04d}", *(f"run-{n:04d}" for n in range(2, 16)))
        live = tuple(a_run(name, update=revision, timesteps=revision * 8192, eta_s=60.0 * revision) for name in names)
        client.show(a_fleet(live, revision=revision))
        await asyncio.sleep(0.1)


async def fall_ill(client: FakeClient) -> None:
    """Soon after the first picture a value is no number any more, and stays so."""
    for revision in range(2, 10_000):
        await asyncio.sleep(0.5)
        client.show(a_fleet((a_run("sick-11c0", findings=(NAN_FINDING,)),), revision=revision))


async def main() -> int:
    """Play until it is left."""
    from mission_tui.fleet.process_limits import ProcessLimits
    from mission_tui.ipc.client_environment import Origin
    from mission_tui.tui.app import MissionApp
    from mission_tui.tui.session import play
    from tests.tui.stage import PRESETS, resolve

    kind = sys.argv[1] if len(sys.argv) > 1 else ""
    client = FakeClient(fleet_of(kind))
    going_on = {"flood": change, "falls-ill": fall_ill}.get(kind)
    news = asyncio.create_task(going_on(client)) if going_on else None
    origin = Origin(cwd="/home/ada/lab", python=sys.executable, environ={}, limits=ProcessLimits())
    app = MissionApp(client, lambda: PRESETS, resolve, origin, environ=dict(os.environ), last_seen_t=1_794_990_000.0)
    result = await play(app, client)
    if news is not None:
        news.cancel()
    return result.exit_code


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
