"""`m`: the machine, and back from it."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.desk import Desk

__all__ = ["machine"]


async def machine(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Open it with the cursor on the run that was looked at; it is never opened over itself."""
    # Its tables are needed here alone.
    from mission_tui.tui.screens.machine import MachineScreen

    shown = desk.shown
    if any(isinstance(screen, MachineScreen) for screen in shown.app.screen_stack):
        shown.dismiss(None)
    else:
        desk.open(MachineScreen(desk, shown.chosen()))
