"""`m`: the machine, and back from it."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext

__all__ = ["machine"]


async def machine(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Open it with the cursor on the run that was looked at; it is never opened over itself."""
    # Its tables are needed here alone.
    from mission_tui.tui.screens.machine import MachineScreen

    shown = app_context.shown
    if any(isinstance(screen, MachineScreen) for screen in shown.app.screen_stack):
        shown.dismiss(None)
    else:
        app_context.open(MachineScreen(app_context, shown.chosen()))
