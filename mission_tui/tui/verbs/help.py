"""`?`: every key and what it does."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.desk import Desk

__all__ = ["help_"]


async def help_(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Open the help of the present screen."""
    from mission_tui.tui.screens.help import HelpScreen

    desk.open(HelpScreen(desk.shown.PLACE, desk.presets, readonly=desk.readonly))
