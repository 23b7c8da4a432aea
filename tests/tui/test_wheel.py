"""The mouse wheel over everything that is longer than its window, or has a cursor."""

from __future__ import annotations

import pytest
from textual.events import MouseScrollDown, MouseScrollUp
from textual.geometry import Offset
from textual.widget import Widget

from mission_tui.tui.screens.launch_form import Presets
from mission_tui.tui.screens.questions import Choices
from mission_tui.tui.widgets.curves import MetricList
from mission_tui.tui.widgets.detail import Detail
from mission_tui.tui.widgets.findings import FindingList
from mission_tui.tui.widgets.run_table import RunTable
from tests.tui.stage import staged


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ((), RunTable),
        (("j", "]"), Detail),
        (("enter",), MetricList),
        (("j", "h"), FindingList),
        (("colon",), Choices),
        (("n",), Presets),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
async def test_the_wheel_moves_what_is_under_it(keys: tuple[str, ...], kind: type[Widget]) -> None:
    """A turn down is seen, and a turn up takes it back."""
    async with staged() as stage:
        await stage.press(*keys)
        await stage.still()
        region = stage.screen.query_one(kind).region
        at = region.offset + Offset(3, 1)

        def seen() -> list[str]:
            return stage.lines()[region.y : region.bottom]

        before = seen()
        for event in (MouseScrollDown, MouseScrollUp):
            stage.screen._forward_event(event(None, at.x, at.y, 0, 0, 0, False, False, False, at.x, at.y))
            await stage.pilot.pause()
            if event is MouseScrollDown:
                await stage.until(lambda: seen() != before, "the wheel is seen")
        await stage.until(lambda: seen() == before, "the wheel turned back is seen")
