"""`F`: stop every process where it stands, at once; memory and GPU memory stay held."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.desk import Desk
from mission_tui.tui.verbs.acting import act, fitting

__all__ = ["freeze"]


async def freeze(desk: Desk, runs: tuple[RunView, ...]) -> None:
    """Freeze the running and paused ones of `runs`."""
    if running := fitting(desk, "freeze", runs):
        await act(desk, "freeze", running)
