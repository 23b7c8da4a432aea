"""`x`: everything that can be done with the chosen runs, each with its key."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.actions import key_label, offered
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.listing.applicable import is_applicable
from mission_tui.tui.screens.picker import Choice, Picker
from mission_tui.tui.verbs.acting import names

__all__ = ["actions"]


async def actions(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Offer the actions that need a run; carry out the one that is taken."""
    one, finding = app_context.shown.chosen(), app_context.shown.finding()
    choices: list[Choice] = []
    for action in offered(app_context.shown.PLACE, readonly=app_context.readonly):
        alone = action.needs == "run" and one is not None
        meant = (one,) if one is not None and alone else runs
        if action.menu and action.needs != "none" and any(is_applicable(action.name, view, finding) for view in meant):
            # The cursor moves on while one marks: nobody may take what is for its run alone for all that are marked.
            told = f"{names(meant)} alone: {action.help}" if alone and action.changes and len(runs) > 1 else action.help
            choices.append(Choice(action.call, action.label, told, key_label(action.keys[0])))
    if call := await app_context.ask_user(Picker(names(runs), choices, typed=False)):
        await app_context.press(call)
