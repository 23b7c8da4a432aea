"""`s`: save a checkpoint, then end."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.desk import Desk
from mission_tui.tui.verbs.acting import act, fitting

__all__ = ["stop"]


async def stop(desk: Desk, runs: tuple[RunView, ...]) -> None:
    """Stop the live and queued ones of `runs`; a second `s` on a stopping run changes nothing."""
    if stoppable := fitting(desk, "stop", runs):
        await act(desk, "stop", stoppable)
