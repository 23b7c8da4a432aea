"""`w`: everything that happened while nobody looked."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.desk import Desk
from mission_tui.tui.screens.away import AwayScreen

__all__ = ["away"]


async def away(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Show it run by run; also after the lines below the meters were closed."""
    if desk.coming_back.away is None:
        desk.tell("nothing happened while you were away")
        return
    await desk.consult(AwayScreen(desk.coming_back.away, desk.coming_back.best))
