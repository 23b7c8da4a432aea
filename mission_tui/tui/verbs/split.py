"""`=`, `_` and `Z`: how the room of a screen is split between its two parts."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.desk import Desk
from mission_tui.tui.widgets.parted import Parted

__all__ = ["larger", "smaller", "usual_sizes"]


async def larger(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """More room for the detail, the chart, the finding or the strip."""
    _step(desk, 1)


async def smaller(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Less room for it."""
    _step(desk, -1)


async def usual_sizes(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Every part as large as it comes."""
    desk.shares.forget()
    desk.redraw()


def _step(desk: Desk, by: int) -> None:
    splits = (parted.split() for parted in desk.shown.query(Parted) if parted.display)
    split = next((split for split in splits if split is not None), None)
    if split is None:
        desk.tell("nothing stands beside this: detail, chart, finding and strip can be larger or smaller")
    elif not desk.shares.step(split, by):
        desk.tell("that is as far as it goes", seconds=2.0)
    else:
        desk.redraw()
