"""The room of a screen is split as the person has it: by keys, by the mouse, and alike on another terminal."""

from __future__ import annotations

from itertools import product

import pytest
from textual.events import MouseMove
from textual.geometry import Offset
from textual.widget import Widget

from mission_tui.tui.screens.machine import MachineScreen
from mission_tui.tui.screens.run import RunScreen
from mission_tui.tui.screens.snapshot_screen import DETAIL_LEAST, arrange
from mission_tui.tui.state.preferences import Preferences, Shares
from mission_tui.tui.widgets.panes import PANE_HEIGHT
from tests.tui.fleets import BUSY, a_fleet
from tests.tui.stage import Stage, staged
from tests.tui.test_looks import SICK

PLACES = {
    "the detail below the list": ((80, 24), (), "#detail"),
    "the detail below the panes": ((120, 40), (), "#detail"),
    "the detail beside the list": ((160, 50), (), "#detail"),
    "the chart": ((120, 30), ("enter",), "#chart"),
    "the finding": ((160, 50), ("h",), "#finding"),
    "the strip": ((80, 30), ("m",), "#timeline"),
}


def cells(stage: Stage, part: str) -> int:
    """How large a part is: the product of its sides."""
    size = stage.screen.query_one(part, Widget).size
    return size.width * size.height


@pytest.mark.parametrize("place", PLACES)
async def test_a_part_is_made_larger_and_smaller_and_comes_back(place: str) -> None:
    """A step each way leads back to where it was, and `Z` from anywhere; nothing else loses a cell of the screen."""
    size, keys, part = PLACES[place]
    fleet = BUSY if part == "#timeline" else SICK if part == "#finding" else a_fleet()
    async with staged(fleet, size=size) as stage:
        await stage.press(*keys)
        await stage.still()
        usual = cells(stage, part)
        await stage.press("_", "_")
        await stage.until(lambda: cells(stage, part) < usual, "smaller")
        await stage.still()
        smaller = cells(stage, part)
        await stage.press("=", "=", "=")
        await stage.until(lambda: cells(stage, part) > smaller, "larger")
        assert all(len(line) == size[0] for line in stage.lines())
        await stage.press("Z")
        await stage.until(lambda: cells(stage, part) == usual, "as it came")


async def test_the_way_ends_before_a_part_is_gone() -> None:
    """Held down, a key leaves both parts on the screen, and says that it ends there."""
    async with staged(preferences=Preferences(shares={"detail": 0.0})) as stage:
        assert stage.screen.query_one("#detail").size.height == DETAIL_LEAST
        await stage.press("_")
        await stage.until(lambda: "that is as far as it goes" in stage.toasts())
    async with staged(preferences=Preferences(shares={"detail": 1.0})) as stage:
        assert stage.screen.query_one("#runs").size.height == 4
        assert "heavy-3f9a" in stage.text()


async def test_where_nothing_is_split_that_is_said() -> None:
    """One part alone has no size to choose."""
    async with staged() as stage:
        await stage.press("z", "=")
        await stage.until(lambda: any("nothing to resize here" in toast for toast in stage.toasts()))
        assert stage.app.app_context.shares.as_table() == {}


async def test_another_terminal_is_split_alike() -> None:
    """What was kept is a share: of 24 rows as of 48."""
    async with staged(size=(80, 48), preferences=Preferences(shares={"detail": 0.5, "chart": 0.5})) as stage:
        assert stage.screen.query_one("#detail").size.height == pytest.approx(22, abs=1)
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.screen, RunScreen))
        await stage.until(lambda: stage.screen.query_one("#chart").size.width == 40)
        await stage.pilot.resize_terminal(60, 24)
        await stage.until(lambda: stage.screen.query_one("#chart").size.width == 30)


async def _drag(stage: Stage, grip: Offset, to: Offset) -> None:
    await stage.pilot.mouse_down(offset=grip)
    await stage.pilot._post_mouse_events([MouseMove], offset=to, button=1)
    await stage.pilot.mouse_up(offset=to)
    await stage.still()


async def test_the_mouse_drags_a_border() -> None:
    """By the line of tabs where no tab is, and nowhere else; letting go ends it."""
    async with staged() as stage:
        detail = stage.screen.query_one("#detail")
        before, top = detail.size.height, detail.region.y
        to = Offset(78, top + 3)
        await _drag(stage, Offset(78, top - 2), to)
        await _drag(stage, Offset(18, top), to)
        assert detail.size.height == before
        await _drag(stage, Offset(78, top), to)
        assert detail.size.height == before - 3
        await stage.pilot._post_mouse_events([MouseMove], offset=Offset(78, top), button=1)
        await stage.still()
        assert detail.size.height == before - 3


async def test_the_strip_takes_no_more_than_it_fills() -> None:
    """So that the way back from its end is not longer than it looks."""
    async with staged(BUSY, size=(80, 60), preferences=Preferences(shares={"strip": 0.8})) as stage:
        await stage.press("m")
        await stage.until(lambda: isinstance(stage.screen, MachineScreen))
        await stage.still()
        most = cells(stage, "#timeline")
        await stage.press("_")
        await stage.until(lambda: cells(stage, "#timeline") < most)


@pytest.mark.parametrize("panes", [True, False])
def test_no_share_loses_a_row(panes: bool) -> None:
    """Panes, list and detail fill any number of rows whatever was chosen, and nothing is shown too low to read."""
    shares, sizes = (0.0, 0.2, 0.5, 0.8, 1.0), product((80, 130, 200), range(5, 70))
    for share, (width, rows), live, rest in product(shares, sizes, (0, 3, 16), (0, 9)):
        shared = arrange(width, rows, live, rest, panes=panes, maximised=None, shares=Shares({"detail": share}))
        listed = rows - shared.panes - (0 if shared.beside else shared.detail)
        assert listed >= 1
        assert shared.panes == 0 or shared.panes >= PANE_HEIGHT
        assert shared.detail == 0 or shared.detail >= DETAIL_LEAST
