"""`{` and `}`: how far back the strip goes."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.desk import Desk
from mission_tui.tui.widgets.timeline import Timeline

__all__ = ["longer", "shorter"]


async def longer(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Show a longer stretch."""
    _turn(desk, 1)


async def shorter(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Show a shorter stretch, more finely."""
    _turn(desk, -1)


def _turn(desk: Desk, by: int) -> None:
    if not any(widget.display for widget in desk.shown.query(Timeline)):
        desk.tell("the strip is not shown here: m opens the machine")
        return
    desk.zoom.turn(by)
    desk.redraw()
