"""`u`: take back the last launch or removal while it is fresh."""

from __future__ import annotations

from mission_tui.errors import NoSupervisorError, ProtocolError
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.cleanup_requests import Restore
from mission_tui.ipc.requests import UNDO_S, Undo
from mission_tui.tui.desk import Deed, Desk

__all__ = ["undo"]


async def undo(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Kill and remove what the last launch made, or bring back what was removed; too late, it says what to do."""
    deed = desk.undoable()
    if deed is None:
        desk.tell(f"nothing to undo: that works for {UNDO_S:.0f} seconds after a start or removal; K kills a run")
        return
    desk.deeds.remove(deed)
    desk.clear()
    try:
        await _take_back(desk, deed)
    except (NoSupervisorError, ProtocolError):
        # Nothing was taken back, because nobody was there to do it: the key still means this deed.
        desk.deeds.append(deed)
        raise


async def _take_back(desk: Desk, deed: Deed) -> None:
    runs = deed.runs
    if deed.how == "removed":
        back = await desk.ask(lambda id_: Restore(id=id_, runs=runs))
        desk.tell(f"took back {len(back.runs)} run{'s' if len(back.runs) != 1 else ''}")
        return
    reply = await desk.ask(lambda id_: Undo(id=id_, runs=runs))
    desk.tell(f"removed {len(reply.runs)} run{'s' if len(reply.runs) != 1 else ''}")
    for note in reply.notes:
        desk.tell(note, "warning")
