"""The cursor in a list moves at once; curves, which take longer, follow it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mission_tui.tui.screens.fleet import FleetScreen
from mission_tui.tui.screens.run import RunScreen
from mission_tui.tui.widgets.curves import Curves
from tests.tui.fleets import LIVE
from tests.tui.stage import staged


async def test_the_cursor_is_painted_before_the_curves_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of metrics whose history is known, so that nothing but the drawing takes its time."""
    waiting: list[Callable[[], Any]] = []
    async with staged(size=(120, 36)) as stage:
        await stage.press("enter")
        for key, metric in (("down", "episode length"), ("up", "return")):
            await stage.press(key)
            await stage.shows(f" {metric} over ")
        await stage.still()
        with monkeypatch.context() as held:
            held.setattr(Curves, "call_after_refresh", lambda _self, work: waiting.append(work))
            await stage.press("down")
            await stage.until(lambda: waiting and ">episode length" in stage.text())
            screen = stage.screen
            assert isinstance(screen, RunScreen)
            screen._answered()  # whatever comes meanwhile, the cursor stays before the curves
            await stage.pilot.pause()
            assert " return over " in stage.text()
        waiting[-1]()
        await stage.shows(" episode length over ")


async def test_the_cursor_of_the_list_is_painted_before_the_detail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The detail of the run that it came to follows, and only that of the last one."""
    waiting: list[Callable[[], Any]] = []
    async with staged(size=(100, 30)) as stage:
        first, second = LIVE[0].name, LIVE[1].name
        await stage.shows(f"─ {first} ─")
        with monkeypatch.context() as held:
            held.setattr(FleetScreen, "call_after_refresh", lambda _self, work: waiting.append(work))
            await stage.press("down")
            await stage.until(
                lambda: waiting and any(line.startswith(">") and second in line for line in stage.lines())
            )
            fleet = stage.screen
            assert isinstance(fleet, FleetScreen)
            fleet._rest(fleet._rests_on)  # the cursor had rested on the first one just then
            await stage.pilot.pause()
            assert f"─ {first} ─" in stage.text()
        waiting[-1]()
        await stage.shows(f"─ {second} ─")
