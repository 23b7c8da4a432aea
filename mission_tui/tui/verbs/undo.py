"""`u`: take back the last launch or removal while it is fresh."""

from __future__ import annotations

from mission_tui.errors import NoSupervisorError, ProtocolError
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import UNDO_S, Restore, Undo
from mission_tui.tui.app_context import AppContext, UndoableAction

__all__ = ["undo"]


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
