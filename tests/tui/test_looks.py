"""How the screen looks: pictures at two sizes, compared cell by cell. `--snapshot-update` records them anew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import pytest
from msgspec import structs
from textual.pilot import Pilot
from textual.screen import Screen

from mission_tui.fleet.events.processes import EnvWorkers, SlowWorker
from mission_tui.tui.app import MissionApp
from mission_tui.tui.screens.run import RunScreen
from mission_tui.tui.widgets.charts import BAND
from tests.tui.fake_client import FakeClient
from tests.tui.fleets import BUSY, ENDED, ENTROPY_FINDING, KL_FINDING, LIVE, NAN_FINDING, a_fleet, a_run
from tests.tui.stage import Clock, Stage, make_app

SMALL = (80, 24)
WIDE = (120, 36)
TALL = (160, 50)
LARGE = (200, 50)
CREWED = a_fleet(
    (
        structs.replace(
            LIVE[0],
            workers=EnvWorkers(
                4, 0, (), SlowWorker(2, 103, 0.004, 0.001), (101, 102, 103, 104), (1e-3, 2e-3, 4e-3, 1e-3)
            ),
        ),
    )
)
SICK = a_fleet((a_run("sick-11c0", findings=(NAN_FINDING, KL_FINDING, ENTROPY_FINDING)), *ENDED))


class SnapCompare(Protocol):
    def __call__(
        self,
        app: MissionApp,
        *,
        terminal_size: tuple[int, int],
        run_before: Callable[[Pilot[int]], Awaitable[None]],
    ) -> bool: ...


LOOKS: dict[str, tuple[tuple[int, int], dict[str, Any], tuple[str, ...], str]] = {
    "fleet": (SMALL, {}, ("down",), "advice fewer epochs"),
    "findings": (SMALL, {"fleet": SICK}, ("h", "down"), 10 * BAND),
    "findings_wide": (LARGE, {"fleet": SICK}, ("h", "down"), 10 * BAND),
    "readings": (SMALL, {}, ("h",), "idle endings"),
    "fleet_panes": (WIDE, {}, (), "▲ KL outside the trust region"),
    "fleet_ascii": (SMALL, {"environ": {"LC_ALL": "C", "HOME": "/home/ada"}}, (), ">* heavy-3f9a"),
    "empty": (SMALL, {"fleet": a_fleet(())}, (), "1 starts demo"),
    "readonly": (SMALL, {"readonly": True, "fleet": a_fleet(gpus=())}, (), "no GPU"),
    "fleet_strip": (TALL, {}, (), "0.018┤"),  # of the chart that is asked for once the cursor has rested
    "machine": (SMALL, {"fleet": BUSY}, ("m",), "rollout  █ update"),
    "machine_tall": (TALL, {"fleet": BUSY}, ("m", "greater_than_sign"), "rollout  █ update"),
    "machine_ascii": (
        SMALL,
        {"fleet": BUSY, "environ": {"LC_ALL": "C", "HOME": "/home/ada"}},
        ("m",),
        "rollout  # update",
    ),
    "run_learn": (SMALL, {}, ("enter",), "500k"),
    "run_learn_wide": (WIDE, {}, ("enter",), "500k"),
    "run_several": (SMALL, {"fleet": SICK}, ("enter", "space", "down", "down", "space", "down", "down"), "C "),
    "run_several_tall": (
        TALL,
        {"fleet": SICK},
        ("enter", "space", "down", "down", "right_curly_bracket", "right_curly_bracket", "tab", "pageup"),
        "update 2",
    ),
    "run_log_ascii": (
        SMALL,
        {"fleet": SICK, "environ": {"LC_ALL": "C", "HOME": "/home/ada"}},
        ("enter", "Y"),
        "Y logarithmic",
    ),
    "run_config": (SMALL, {}, ("d",), "one step takes 9 us"),
    "run_episodes": (SMALL, {}, ("enter", "o"), "█ captured"),
    "run_episodes_tall": (TALL, {}, ("enter", "o"), "█ captured"),
    "run_journal": (SMALL, {}, ("enter", "J"), "preset heavy"),
    "run_journal_tall": (TALL, {}, ("enter", "J"), "preset heavy"),
    "run_log": (SMALL, {}, ("enter", "l"), "slow step"),
    "run_log_tall": (TALL, {}, ("enter", "l", "slash", *"slow", "enter", "<"), ">warning: slow step"),
    "run_config_differs": (SMALL, {}, ("d", "v"), "nothing differs"),
    "run_config_tall": (TALL, {}, ("d",), "one step takes 9 us"),
    "run_machine_tall": (TALL, {"fleet": CREWED}, ("enter", "]", "]", "]"), "device    cpu"),
    "run_machine": (SMALL, {"fleet": BUSY}, ("enter", "]", "]", "]"), "device    cpu"),
    "help": (SMALL, {}, ("question_mark",), "start demo at once"),
    "kill": (SMALL, {}, ("K",), "y kill now"),
    "form": (SMALL, {}, ("n",), "begins now on GPU 0"),
    "form_tall": (TALL, {}, ("n", "down", "down"), "begins now on GPU 0"),
    "findings_tall": (TALL, {"fleet": SICK}, ("h", "down"), 10 * BAND),
    "help_tall": (TALL, {}, ("question_mark",), "start demo at once"),
    "kill_tall": (TALL, {}, ("K",), "y kill now"),
}

PICTURED = {
    "FleetScreen": ("fleet", "fleet_strip"),
    "RunScreen learn": ("run_learn", "run_several_tall"),
    "RunScreen health": ("findings", "findings_tall"),
    "RunScreen config": ("run_config", "run_config_tall"),
    "RunScreen machine": ("run_machine", "run_machine_tall"),
    "RunScreen episodes": ("run_episodes", "run_episodes_tall"),
    "RunScreen journal": ("run_journal", "run_journal_tall"),
    "RunScreen log": ("run_log", "run_log_tall"),
    "MachineScreen": ("machine", "machine_tall"),
    "HelpScreen": ("help", "help_tall"),
    "ConfirmScreen": ("kill", "kill_tall"),
    "LaunchForm": ("form", "form_tall"),
}
"""The pictures that show a screen, or a tab of the run's, in a small and in a tall terminal."""


def seen_on(screen: Screen[Any]) -> str:
    """What a picture is of."""
    return f"RunScreen {screen._tab}" if isinstance(screen, RunScreen) else type(screen).__name__


@pytest.mark.parametrize("look", LOOKS)
def test_it_looks_as_recorded(look: str, snap_compare: SnapCompare, utc: None) -> None:
    """Every cell of the picture is where it was, in its colour."""
    size, options, keys, ready = LOOKS[look]
    options = dict(options)
    of = next((name for name, looks in PICTURED.items() if look in looks), "")
    client, clock = FakeClient(options.pop("fleet", a_fleet())), Clock()
    app = make_app(client, clock, **options)

    async def play(pilot: Pilot[int]) -> None:
        stage = Stage(app, client, clock, pilot)
        await stage.until(lambda: app.app_context.snapshot is not None and app.app_context.presets)
        await pilot.pause()
        if look.startswith(("kill", "help", "form")):
            # The charts below the list come with the cursor's rest, also under a sheet.
            await stage.until(lambda: getattr(stage.screen, "_rested", True))
            await stage.still()
        await stage.press(*keys)
        await stage.shows(ready)
        if look.startswith("form"):
            # What a preset comes to is asked for once the cursor rests on it, and was known of the one before.
            await stage.still()
        if look.startswith("findings"):
            # Hints follow what was laid out before, so they are settled with the next snapshot.
            newest = app.app_context.snapshot
            assert newest is not None
            await stage.arrive(structs.replace(newest, revision=newest.revision + 1))
        await pilot.pause()
        assert not of or seen_on(stage.screen) == of

    assert snap_compare(app, terminal_size=size, run_before=play)
