"""`F5`: read the presets again, ask for the newest state, and for packages that were changed under live runs."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import GetSnapshot, GetUpgrades
from mission_tui.tui.desk import Desk
from mission_tui.tui.launching.preset_reading import read_presets

__all__ = ["refresh"]


async def refresh(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Read all of it again."""
    await read_presets(desk)
    reply = await desk.ask(lambda id_: GetSnapshot(id=id_))
    desk.arrived(reply.snapshot)
    desk.tell("refreshed", seconds=2.0)
    # Last, because it asks each interpreter, which takes a moment.
    found = await desk.ask(lambda id_: GetUpgrades(id=id_))
    for one in found.upgrades:
        what = "; ".join(f"{change.name}: {change.was} -> {change.now}" for change in one.changes)
        desk.tell(f"changed under {one.name} since it was launched: {what}", "warning")
