"""`Del`: ended runs go to the trash for a day; `u` takes them back for ten seconds, the command line for the rest."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import UNDO_S, Remove
from mission_tui.tui.app_context import AppContext, UndoableAction
from mission_tui.tui.verbs.acting import fitting, names

__all__ = ["remove"]


async def remove(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Move the ended ones of `runs` to the trash, and say how they come back."""
    ended = fitting(app_context, "remove", runs)
    if not ended:
        return
    ids = tuple(view.id for view in ended)
    reply = await app_context.ask(lambda id_: Remove(id=id_, runs=ids))
    app_context.undo_stack.append(UndoableAction("removed", reply.runs, app_context.clock()))
    way_back = f"u takes back for {UNDO_S:.0f} s, `mission-tui rm --undo` for a day"
    app_context.toast(f"moved {names(ended)} to the trash: {way_back}", seconds=UNDO_S)
    app_context.redraw()
