"""`u`: take back the last launch while it is fresh."""

from __future__ import annotations

from mission_tui.fleet.snapshot import RunView
from mission_tui.ipc.requests import Undo
from mission_tui.tui.desk import UNDO_S, Desk

__all__ = ["undo"]


async def undo(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Kill and remove what the last launch made; too late, it says what to press instead."""
    runs = desk.undoable()
    if not runs:
        desk.tell(f"nothing to undo: that works for {UNDO_S:.0f} seconds after a start; K kills a run")
        return
    desk.forget_launch()
    desk.clear()
    reply = await desk.ask(lambda id_: Undo(id=id_, runs=runs))
    desk.tell(f"removed {len(reply.runs)} run{'s' if len(reply.runs) != 1 else ''}")
    for note in reply.notes:
        desk.tell(note, "warning")
