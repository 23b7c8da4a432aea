"""`x`: everything that can be done with the chosen runs, each with its key."""

from __future__ import annotations

from mission_tui.fleet.views.abilities import refusal
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.actions import key_label, offered
from mission_tui.tui.desk import Desk
from mission_tui.tui.screens.picker import Choice, Picker
from mission_tui.tui.verbs.acting import names

__all__ = ["actions"]


async def actions(desk: Desk, runs: tuple[RunView, ...]) -> None:
    """Offer the actions that need a run; carry out the one that is taken."""
    choices = [
        Choice(action.call, action.label, action.help, key_label(action.keys[0]))
        for action in offered(desk.shown.PLACE, readonly=desk.readonly)
        if action.menu and action.needs != "none" and _any_can(action.name, runs)
    ]
    if call := await desk.consult(Picker(names(runs), choices, typed=False)):
        await desk.press(call)


def _any_can(name: str, runs: tuple[RunView, ...]) -> bool:
    return not runs or any(refusal(view.can, name) is None for view in runs)
