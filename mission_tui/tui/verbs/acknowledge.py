"""`i`: the chosen finding is known, so it asks for nothing until it gets worse; a second time takes that back."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Mark
from mission_tui.tui.desk import Desk
from mission_tui.tui.verbs.acting import no_finding

__all__ = ["acknowledge"]


async def acknowledge(desk: Desk, runs: tuple[RunView, ...]) -> None:
    """Acknowledge an open finding, or open an acknowledged one again."""
    view, finding = runs[0], desk.shown.finding()
    if finding is None:
        no_finding(desk, "acknowledge", view)
    elif finding.state == "cleared":
        desk.tell("nothing to acknowledge: this finding is over")
    elif finding.state == "silenced":
        desk.tell(f"{finding.rule} is silenced for {view.name}; I lets it speak again")
    elif finding.state == "acknowledged":
        await desk.ask(lambda id_: Mark(id=id_, run=view.id, mark="open", finding=finding.id))
        desk.tell(f"{finding.rule} of {view.name} is open again")
    else:
        await desk.ask(lambda id_: Mark(id=id_, run=view.id, mark="acknowledged", finding=finding.id))
        desk.tell(f"{finding.rule} of {view.name} is acknowledged; it speaks again if it gets worse")
