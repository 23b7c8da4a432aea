"""`F`: stop every process where it stands, at once; memory and GPU memory stay held."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.verbs.acting import act, fitting

__all__ = ["freeze"]


async def freeze(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Freeze the running and paused ones of `runs`."""
    if running := fitting(app_context, "freeze", runs):
        await act(app_context, "freeze", running)
