"""What verbs share: one request about the runs it can apply to, what was accepted, and what there is none of."""

from __future__ import annotations

from collections.abc import Sequence

from mission_tui.fleet.views.abilities import refusal
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Act, ActVerb
from mission_tui.tui.actions import STATES
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.run_status import state_word

__all__ = ["able", "act", "fitting", "names", "no_finding"]


def able(app_context: AppContext, verb: str, runs: Sequence[RunView]) -> tuple[RunView, ...]:
    """Those of `runs` that can do `verb` in any state; says why not when none can."""
    can = tuple(view for view in runs if refusal(view.can, verb) is None)
    if runs and not can:
        app_context.toast(f"cannot {verb} {names(runs)}: {refusal(runs[0].can, verb)}", "warning")
    return can


def fitting(app_context: AppContext, verb: str, runs: Sequence[RunView]) -> tuple[RunView, ...]:
    """The runs in a state in which `verb` means something; says so when there is none."""
    fit = tuple(view for view in runs if view.state in STATES[verb])
    if not fit and runs:
        one = runs[0]
        app_context.toast(
            f"nothing to {verb}: {one.name} is {state_word(one)}"
            if len(runs) == 1
            else f"nothing to {verb} among these"
        )
    return fit


async def act(app_context: AppContext, verb: ActVerb, runs: Sequence[RunView]) -> None:
    """Ask for `verb`. What comes of it shows in the snapshots, so only acceptance and notes are told."""
    ids = tuple(view.id for view in runs)
    reply = await app_context.ask(lambda id_: Act(id=id_, verb=verb, runs=ids))
    app_context.toast(f"{verb} accepted for {names(runs)}")
    for note in reply.notes:
        app_context.toast(note, "warning")


def no_finding(app_context: AppContext, verb: str, view: RunView) -> None:
    """Say that there is no finding to `verb`, and where those are that are over or known already."""
    others = "; h shows the others" if view.findings else ""
    app_context.toast(f"nothing to {verb}: {view.name} has no open finding{others}")


def names(runs: Sequence[RunView]) -> str:
    """`heavy-3f9a`, `heavy-3f9a and wide-11c0`, `heavy-3f9a and 4 more`."""
    if len(runs) <= 2:
        return " and ".join(view.name for view in runs)
    return f"{runs[0].name} and {len(runs) - 1} more"
