"""`X` removes what dead runs left, `Del` moves ended runs to the trash, `u` takes back a fresh start or removal.

The trash keeps them for a day: `u` for ten seconds, the command line for the rest.
"""

from __future__ import annotations

from mission_tui.errors import NoSupervisorError, ProtocolError
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import UNDO_S, Clean, Remove, Restore, Undo
from mission_tui.tui.screens.questions import LeftoversScreen
from mission_tui.tui.state.app_context import AppContext, UndoableAction
from mission_tui.tui.verbs.orders import fitting, names

__all__ = ["clean", "remove", "undo"]


async def clean(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Ask for leftovers; remove those that are ours if the person says yes."""
    found = await app_context.ask(lambda id_: Clean(id=id_))
    if not found.stale:
        app_context.toast("nothing was left behind by dead runs")
        return
    if not await app_context.ask_user(LeftoversScreen(found.stale)):
        return
    keys = tuple(stale.key for stale in found.stale if stale.verdict == "ours")
    reply = await app_context.ask(lambda id_: Clean(id=id_, remove=keys))
    removed = sum(stale.removed for stale in reply.stale)
    app_context.toast(f"removed {removed} of {len(keys)}", "information" if removed == len(keys) else "warning")


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


async def undo(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Kill and remove what the last launch made, or bring back what was removed; too late, it says what to do."""
    action = app_context.undoable()
    if action is None:
        app_context.toast(
            f"nothing to undo: that works for {UNDO_S:.0f} seconds after a start or removal; K kills a run"
        )
        return
    app_context.undo_stack.remove(action)
    app_context.clear()
    try:
        await _take_back(app_context, action)
    except (NoSupervisorError, ProtocolError):
        # Nothing was taken back, because nobody was there to do it: the key still means this deed.
        app_context.undo_stack.append(action)
        raise


async def _take_back(app_context: AppContext, action: UndoableAction) -> None:
    runs = action.runs
    if action.how == "removed":
        back = await app_context.ask(lambda id_: Restore(id=id_, runs=runs))
        app_context.toast(f"took back {len(back.runs)} run{'s' if len(back.runs) != 1 else ''}")
        return
    reply = await app_context.ask(lambda id_: Undo(id=id_, runs=runs))
    app_context.toast(f"removed {len(reply.runs)} run{'s' if len(reply.runs) != 1 else ''}")
    for note in reply.notes:
        app_context.toast(note, "warning")
