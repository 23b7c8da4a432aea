"""Orders to runs: `p` pause, `F` freeze, `B` park, `C` checkpoint, `s` stop, `K` kill after a question.

And what all verbs share: which of the chosen runs a verb can apply to, and what to say when there are none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, cast

from mission_tui.fleet.commands import CATALOGUE, is_done_already, never, objection
from mission_tui.fleet.events.journal import ActVerb
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Act
from mission_tui.present.run_state import state_word
from mission_tui.tui.screens.questions import ConfirmScreen
from mission_tui.tui.state.app_context import AppContext

LATE_S = 2.0
"""An order without an answer for so long is said to be under way: of a line that hangs ssh lets go after 15 s."""

Verb = Callable[[AppContext, tuple[RunView, ...]], Coroutine[Any, Any, None]]


def _order(verb: str) -> Verb:
    """Ask it of those runs in whose state it means something; a second `s` on a stopping run changes nothing."""

    async def give(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
        if fit := fitting(app_context, verb, runs):
            await act(app_context, verb, fit)

    return give


async def kill(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Kill the live and queued ones of `runs`, if the person says yes; `s` there stops them."""
    live = fitting(app_context, "kill", runs)
    if not live:
        return
    facts = [f"{view.name}: {_loss(view)}" for view in live]
    saves = all("checkpoint" in view.can for view in live)
    instead = "stops and saves instead" if saves else "lets it end (SIGTERM) instead"
    title = f"Kill {names(live)}{where(live)}?"
    answer = await app_context.ask_user(ConfirmScreen(title, facts, "kill now", instead))
    if answer:
        await act(app_context, "kill", live)
    elif answer is not None and (stoppable := fitting(app_context, "stop", live)):
        await act(app_context, "stop", stoppable)


def _loss(view: RunView) -> str:
    if "checkpoint" not in view.can:
        return "what its command has not saved itself is lost"
    if view.update is None:
        return "has learned nothing yet"
    if view.last_checkpoint is None:
        return "has no checkpoint; everything learned so far is lost"
    return f"everything after checkpoint {view.last_checkpoint} is lost"


VERBS: Mapping[str, Verb] = {**{row.name: _order(row.name) for row in CATALOGUE if row.order}, "kill": kill}
"""By action name: those of the catalogue, and `kill`, which asks first."""


def able(app_context: AppContext, verb: str, runs: Sequence[RunView]) -> tuple[RunView, ...]:
    """Those of `runs` that can do `verb` in any state; says why not when none can."""
    if app_context.snapshot is not None:
        known = {view.id for view in app_context.snapshot.runs}
        gone, runs = runs, [view for view in runs if view.id in known]
        if gone and not runs:
            app_context.toast(f"cannot {verb} {names(gone)}: not there any more", "warning")
    can = tuple(view for view in runs if never(verb, view) is None)
    if runs and not can:
        app_context.toast(f"cannot {verb} {names(runs)}: {never(verb, runs[0])}", "warning")
    return can


def fitting(app_context: AppContext, verb: str, runs: Sequence[RunView]) -> tuple[RunView, ...]:
    """The runs in a state in which `verb` means something; says so when there is none."""
    fit = tuple(it for it in runs if not is_done_already(verb, it) and objection(verb, it) is None)
    if not fit and runs:
        one = runs[0]
        if len(runs) == 1 and one.job_waits and (against := objection(verb, one)):
            app_context.toast(f"cannot {verb} {one.name}: {against}", "warning")
            return fit
        app_context.toast(
            f"nothing to {verb}: {one.name} is {state_word(one)}"
            if len(runs) == 1
            else f"nothing to {verb} among these"
        )
    return fit


async def act(app_context: AppContext, verb: str, runs: Sequence[RunView]) -> None:
    """Ask for `verb`. What comes of it shows in the snapshots: a toast has only acceptance and notes."""
    ids = tuple(view.id for view in runs)
    late = f"{verb} {names(runs)}{where(runs)}: no answer yet"
    waiting = asyncio.get_running_loop().call_later(LATE_S, app_context.toast, late)
    try:
        reply = await app_context.ask(lambda id_: Act(id=id_, verb=cast(ActVerb, verb), runs=ids))
    finally:
        waiting.cancel()
    app_context.toast(f"{verb} accepted for {names(runs)}{where(runs)}")
    app_context.warn(reply.notes)


def no_finding(app_context: AppContext, verb: str, view: RunView) -> None:
    """Say that there is no finding to `verb`, and where those are that are over or known already."""
    others = "; h shows the others" if view.findings else ""
    app_context.toast(f"nothing to {verb}: {view.name} has no open finding{others}")


def where(runs: Sequence[RunView]) -> str:
    """` on gpu1 and here`; nothing on a screen of this machine alone."""
    machines = " and ".join(dict.fromkeys(view.host for view in runs if view.host))
    return f" on {machines}" if machines else ""


def names(runs: Sequence[RunView]) -> str:
    """`heavy-3f9a`, `heavy-3f9a and wide-11c0`, `heavy-3f9a and 4 more`."""
    if len(runs) <= 2:
        return " and ".join(view.name for view in runs)
    return f"{runs[0].name} and {len(runs) - 1} more"
