"""`w`: everything that happened while nobody looked."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.screens.away import AwayScreen

__all__ = ["away"]


async def away(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Show it run by run; also after the lines below the meters were closed."""
    if app_context.coming_back.away is None:
        app_context.toast("nothing happened while you were away")
        return
    await app_context.ask_user(AwayScreen(app_context.coming_back.away, app_context.coming_back.best))
