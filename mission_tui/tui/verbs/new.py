"""`n`: the form for anything with changes."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.desk import Desk
from mission_tui.tui.verbs.launch import launch

__all__ = ["new"]


async def new(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Open the form; start what it was submitted with."""
    from mission_tui.tui.screens.launch_form import LaunchForm

    if items := await desk.consult(LaunchForm(desk)):
        await launch(desk, items)
