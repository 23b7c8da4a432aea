"""`C`: save a checkpoint at the next update boundary and go on."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.verbs.acting import act, fitting

__all__ = ["checkpoint"]


async def checkpoint(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Ask the running and paused ones of `runs` for a checkpoint."""
    if running := fitting(app_context, "checkpoint", runs):
        await act(app_context, "checkpoint", running)
