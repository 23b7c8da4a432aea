"""`y`: the run's id on the clipboard, for the command line in the next window."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext

__all__ = ["copy"]


async def copy(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Copy the ids of `runs`, separated by blanks."""
    ids = " ".join(view.id for view in runs)
    app_context.copy(ids)
    app_context.toast(f"copied {ids}")
