"""The chosen finding: `i` acknowledges it, `I` silences its rule, `a` applies its advice after showing the effects."""

from __future__ import annotations

from collections.abc import Mapping

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.specs.spec import LIVE_KEYS
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Accepted, VerdictReply
from mission_tui.ipc.requests import Apply, Mark
from mission_tui.present import numbers
from mission_tui.tui.screens.verdict import Proposal, VerdictScreen
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.verbs.orders import Verb, no_finding


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


async def apply(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Ask what would change, ask the person, then ask for it."""
    view, finding = runs[0], app_context.shown.finding()
    if finding is None:
        no_finding(app_context, "apply", view)
        return
    reply = await _ask(app_context, view, finding)
    if isinstance(reply, VerdictReply):
        if not await app_context.ask_user(VerdictScreen(view.name, reply, _proposal(view, finding, reply.checkpoint))):
            return
        reply = await _ask(app_context, view, finding, agreed=reply.checkpoint or None, accept=True)
    if isinstance(reply, VerdictReply):
        app_context.toast(
            f"{view.name} has changed meanwhile and can no longer follow this advice; look again", "warning"
        )
        return
    app_context.toast(f"the advice of {finding.rule} is applied to {view.name}")
    for note in reply.notes:
        app_context.toast(note, "warning")


def _proposal(view: RunView, finding: Finding, checkpoint: str) -> Proposal:
    origin = f"{checkpoint or 'the last good checkpoint'}, from before update {numbers.count(finding.first_update)}"
    advice = f"advice: {finding.proposal}"
    later = "What it learned after that is left behind."
    if view.state in ALIVE:
        fate = f"{view.name} is training now: it is stopped, and then goes on from {origin}. {later}"
        return Proposal(
            f"Stop {view.name} and go on as advised?", (advice, fate, *_gentler(finding)), "stop it and apply"
        )
    fate = f"{view.name} goes on as another attempt from {origin}. {later}"
    return Proposal(f"Go on with {view.name} as advised?", (advice, fate), "apply")


def _gentler(finding: Finding) -> tuple[str, ...]:
    """The key that does less, where the advice is settings that a run takes over while it trains."""
    keys = [word.partition("=")[0] for word in finding.advice_set]
    return ("To set it from here on, without going back: Esc, then A.",) if keys and set(keys) <= set(LIVE_KEYS) else ()


async def _ask(
    app_context: AppContext, view: RunView, finding: Finding, *, agreed: str | None = None, accept: bool = False
) -> Accepted | VerdictReply:
    origin = app_context.origin
    return await app_context.ask(
        lambda id_: Apply(
            id=id_,
            run=view.id,
            finding=finding.id,
            checkpoint=agreed,
            accept=accept,
            check_only=not accept,
            **origin,
        )
    )


VERBS: Mapping[str, Verb] = {
    "acknowledge": acknowledge,
    "silence": silence,
    "apply": apply,
}
