"""`?`: every key and what it does."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext

__all__ = ["help_"]


async def help_(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Open the help of the present screen."""
    from mission_tui.tui.screens.help import HelpScreen

    app_context.open(HelpScreen(app_context.shown.PLACE, app_context.presets, readonly=app_context.readonly))
