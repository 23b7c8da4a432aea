"""`=`, `_` and `Z`: how the room of a screen is split between its two parts."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.widgets.split_container import SplitContainer

__all__ = ["larger", "smaller", "usual_sizes"]


async def larger(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """More room for the detail, the chart, the finding or the strip."""
    _step(app_context, 1)


async def smaller(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Less room for it."""
    _step(app_context, -1)


async def usual_sizes(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Every part as large as it comes."""
    app_context.shares.forget()
    app_context.redraw()


def _step(app_context: AppContext, by: int) -> None:
    splits = (parted.split() for parted in app_context.shown.query(SplitContainer) if parted.display)
    split = next((split for split in splits if split is not None), None)
    if split is None:
        app_context.toast("nothing stands beside this: detail, chart, finding and strip can be larger or smaller")
    elif not app_context.shares.step(split, by):
        app_context.toast("that is as far as it goes", seconds=2.0)
    else:
        app_context.redraw()
