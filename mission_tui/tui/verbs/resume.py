"""`r`: let a paused run go on, or give an ended one another attempt after the person has seen what would change."""

from __future__ import annotations

from mission_tui.fleet.snapshot import RunView
from mission_tui.ipc.messages import Accepted, Resume, VerdictReply
from mission_tui.tui.desk import Desk
from mission_tui.tui.screens.verdict import VerdictScreen

__all__ = ["resume"]


async def resume(desk: Desk, runs: tuple[RunView, ...]) -> None:
    """Resume `runs` one after the other; each verdict is its own question."""
    for view in runs:
        reply = await _ask(desk, view.id, accept=False)
        if isinstance(reply, VerdictReply):
            accepted = await desk.consult(VerdictScreen(view.name, reply))
            if not accepted:
                continue
            reply = await _ask(desk, view.id, accept=True)
        if isinstance(reply, Accepted):
            desk.tell(f"resume accepted for {view.name}")
            for note in reply.notes:
                desk.tell(note, "warning")


async def _ask(desk: Desk, run: str, *, accept: bool) -> Accepted | VerdictReply:
    origin = desk.origin
    return await desk.ask(
        lambda id_: Resume(id=id_, run=run, accept=accept, cwd=origin.cwd, python=origin.python, environ=origin.environ)
    )
