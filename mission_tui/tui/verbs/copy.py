"""`y`: the run's id on the clipboard, for the command line in the next window."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.desk import Desk

__all__ = ["copy"]


async def copy(desk: Desk, runs: tuple[RunView, ...]) -> None:
    """Copy the ids of `runs`, separated by blanks."""
    ids = " ".join(view.id for view in runs)
    desk.copy(ids)
    desk.tell(f"copied {ids}")
