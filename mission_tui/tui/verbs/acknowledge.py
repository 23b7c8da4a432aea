"""`i`: the chosen finding is known, so it asks for nothing until it gets worse; a second time takes that back."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Mark
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.verbs.acting import no_finding

__all__ = ["acknowledge"]


async def acknowledge(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Acknowledge an open finding, or open an acknowledged one again."""
    view, finding = runs[0], app_context.shown.finding()
    if finding is None:
        no_finding(app_context, "acknowledge", view)
    elif finding.state == "cleared":
        app_context.toast("nothing to acknowledge: this finding is over")
    elif finding.state == "silenced":
        app_context.toast(f"{finding.rule} is silenced for {view.name}; I lets it speak again")
    elif finding.state == "acknowledged":
        await app_context.ask(lambda id_: Mark(id=id_, run=view.id, mark="open", finding=finding.id))
        app_context.toast(f"{finding.rule} of {view.name} is open again")
    else:
        await app_context.ask(lambda id_: Mark(id=id_, run=view.id, mark="acknowledged", finding=finding.id))
        app_context.toast(f"{finding.rule} of {view.name} is acknowledged; it speaks again if it gets worse")
