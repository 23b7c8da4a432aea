"""`B`: save a checkpoint and end the processes, so that memory and GPU are free until the run is resumed."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.verbs.acting import act, fitting

__all__ = ["park"]


async def park(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Park the live and waiting ones of `runs`."""
    if live := fitting(app_context, "park", runs):
        await act(app_context, "park", live)
