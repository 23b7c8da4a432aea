"""`{` and `}`: how far back the strip goes."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.widgets.timeline import Timeline

__all__ = ["longer", "shorter"]


async def longer(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Show a longer stretch."""
    _turn(app_context, 1)


async def shorter(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Show a shorter stretch, more finely."""
    _turn(app_context, -1)


def _turn(app_context: AppContext, by: int) -> None:
    if not any(widget.display for widget in app_context.shown.query(Timeline)):
        app_context.toast("the strip is not shown here: m opens the machine")
        return
    app_context.zoom.turn(by)
    app_context.redraw()
