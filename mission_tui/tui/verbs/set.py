"""`S`: other settings for a run while it trains, after seeing what they do; `A`: those that a finding advises."""

from __future__ import annotations

from functools import partial

from mission_tui.fleet.specs.spec import LIVE_KEYS
from mission_tui.fleet.views.abilities import refusal
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Accepted, VerdictReply
from mission_tui.ipc.requests import Set
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.screens.line_input import LineInputScreen, settings_in
from mission_tui.tui.screens.verdict import Proposal, VerdictScreen
from mission_tui.tui.verbs.acting import fitting, no_finding, typed

__all__ = ["set_", "set_advice"]

_KEYS = ", ".join(LIVE_KEYS)
_HELP = f"KEY=VALUE, several with spaces between: {_KEYS}. What they do is shown first."


async def set_(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Ask which, show what they do, and set them once that is agreed to."""
    for view in _settable(app_context, runs):
        title = f"Change settings of {view.name} while it trains"

        async def judge(said: str, view: RunView = view) -> None:
            app_context.expect_sheet()
            await _set(app_context, view, settings_in(said))

        make = partial(LineInputScreen, title, _HELP, "shows what they do", "ppo.learning_rate=1e-4")
        await typed(app_context, make, judge)


async def set_advice(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Show what the chosen finding's advice does, and set it; nothing that was learned is taken back."""
    finding = app_context.shown.finding()
    for view in _settable(app_context, runs):
        if finding is None:
            no_finding(app_context, "set", view)
        elif not finding.advice_set:
            app_context.toast(f"{finding.rule} advises no setting: {finding.advice}")
        else:
            await _set(app_context, view, finding.advice_set)


def _settable(app_context: AppContext, runs: tuple[RunView, ...]) -> tuple[RunView, ...]:
    """The first of `runs`, if it can take settings now; else says why not, before anything is typed."""
    fit = fitting(app_context, "set", runs[:1])
    for view in fit:
        if why := refusal(view.can, "apply"):
            app_context.toast(f"cannot set anything of {view.name}: {why}", "warning")
            return ()
    return fit


async def _set(app_context: AppContext, view: RunView, words: tuple[str, ...]) -> None:
    reply = await _ask(app_context, view, words)
    if isinstance(reply, VerdictReply):
        if not reply.verdict.changes:
            app_context.toast(f"{view.name} trains like this already")
            return
        if not await app_context.ask_user(VerdictScreen(view.name, reply, _proposal(view, words))):
            return
        reply = await _ask(app_context, view, words, accept=True)
    if isinstance(reply, VerdictReply):
        app_context.toast(f"{view.name} has changed meanwhile and cannot train like this; look again", "warning")
        return
    app_context.toast(f"{view.name} trains with {' '.join(words)} from its next update on")


def _proposal(view: RunView, words: tuple[str, ...]) -> Proposal:
    lasting = "From the next update on, marked on the curves; health rules look at it afresh. A resume keeps it."
    return Proposal(f"Change {view.name} while it trains?", (f"asked: {' '.join(words)}", lasting), "set it")


async def _ask(
    app_context: AppContext, view: RunView, words: tuple[str, ...], *, accept: bool = False
) -> Accepted | VerdictReply:
    return await app_context.ask(
        lambda id_: Set(id=id_, run=view.id, assignments=words, accept=accept, check_only=not accept)
    )
