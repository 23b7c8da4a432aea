"""`C`: save a checkpoint at the next update boundary and go on."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.desk import Desk
from mission_tui.tui.verbs.acting import act, fitting

__all__ = ["checkpoint"]


async def checkpoint(desk: Desk, runs: tuple[RunView, ...]) -> None:
    """Ask the running and paused ones of `runs` for a checkpoint."""
    if running := fitting(desk, "checkpoint", runs):
        await act(desk, "checkpoint", running)
