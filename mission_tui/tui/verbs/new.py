"""`n`: the form for anything with changes."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.verbs.launch import launch

__all__ = ["new"]


async def new(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Open the form; start what it was submitted with."""
    from mission_tui.tui.screens.launch_form import LaunchForm

    if items := await app_context.ask_user(LaunchForm(app_context)):
        await launch(app_context, items)
