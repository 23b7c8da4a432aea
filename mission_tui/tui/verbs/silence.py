"""`I`: the chosen finding's rule is silent for this run, now and later; a second time lets it speak again."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Mark
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.verbs.acting import no_finding

__all__ = ["silence"]


async def silence(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Silence the rule of the chosen finding, or let it speak again."""
    view, finding = runs[0], app_context.shown.finding()
    if finding is None:
        no_finding(app_context, "silence", view)
    elif finding.rule in view.silenced:
        await app_context.ask(lambda id_: Mark(id=id_, run=view.id, mark="open", rule=finding.rule))
        app_context.toast(f"{finding.rule} speaks again for {view.name}")
    else:
        await app_context.ask(lambda id_: Mark(id=id_, run=view.id, mark="silenced", rule=finding.rule))
        app_context.toast(f"{finding.rule} is silenced for {view.name}; I on its findings lets it speak again")
