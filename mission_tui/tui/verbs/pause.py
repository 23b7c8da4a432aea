"""`p`: hold at the next update boundary; the process and its memory stay."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.desk import Desk
from mission_tui.tui.verbs.acting import act, fitting

__all__ = ["pause"]


async def pause(desk: Desk, runs: tuple[RunView, ...]) -> None:
    """Pause the running ones of `runs`."""
    if running := fitting(desk, "pause", runs):
        await act(desk, "pause", running)
