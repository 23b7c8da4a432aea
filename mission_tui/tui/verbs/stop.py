"""`s`: save a checkpoint, then end."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.verbs.acting import act, fitting

__all__ = ["stop"]


async def stop(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Stop the live and queued ones of `runs`; a second `s` on a stopping run changes nothing."""
    if stoppable := fitting(app_context, "stop", runs):
        await act(app_context, "stop", stoppable)
