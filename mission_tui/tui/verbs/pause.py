"""`p`: hold at the next update boundary; the process and its memory stay."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.verbs.acting import act, fitting

__all__ = ["pause"]


async def pause(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Pause the running ones of `runs`."""
    if running := fitting(app_context, "pause", runs):
        await act(app_context, "pause", running)
