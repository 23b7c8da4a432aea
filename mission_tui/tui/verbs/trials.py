"""`V`: other settings on branches of a run, what they say, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping

from mission_tui.errors import UsageError
from mission_tui.fleet.commands import refusal
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import UNDO_S, Try
from mission_tui.tui.screens.questions import ask_line, settings_in, words_of
from mission_tui.tui.screens.trial import TrialAnswer, TrialScreen
from mission_tui.tui.state.app_context import AppContext, UndoableAction
from mission_tui.tui.state.run_status import open_findings
from mission_tui.tui.verbs.orders import Verb

_TRY_HELP = (
    "KEY=VALUE, several with spaces between; also --budget 30u (or 10m) and --seeds 5. From the last good checkpoint "
    "two branches for each seed train for a short time, one with these settings and one without. Then one sentence."
)


async def _try_(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Show the trial that is under way or has a verdict; else ask what is to be tried, and begin."""
    view = _tried(app_context, runs[0])
    shown = bool(view.trials) and view.trials[-1].closed in ("", "taking", "returning")
    if shown and await _look_at_trial(app_context, view) != "again":
        return
    if why := refusal(view.can, "branch"):
        app_context.toast(f"cannot try anything on {view.name}: {why}", "warning")
        return
    # A branch has findings of its own, but it is its run that is tried.
    finding = app_context.shown.finding() if view is runs[0] else next(iter(open_findings(view)), None)
    if finding is not None and finding.state == "cleared":
        finding = None

    async def begin(said: str) -> None:
        await _begin_trial(app_context, view, finding, said)

    advised = "" if finding is None else " ".join(finding.advice_set)
    title = f"Try settings on branches of {view.name}"
    await ask_line(app_context, title, _TRY_HELP, "tries them", "ppo.n_epochs=4", begin, advised)


def _tried(app_context: AppContext, view: RunView) -> RunView:
    """Where a branch is chosen, the run that its trial is of."""
    mark = view.branch_of
    source = None if mark is None or view.trials else app_context.view(mark.of)
    if source is None or mark is None or not source.trials:
        return view
    return source if source.trials[-1].plan.number == mark.number and not source.trials[-1].closed else view


async def _look_at_trial(app_context: AppContext, view: RunView) -> TrialAnswer | None:
    answer = await app_context.ask_user(TrialScreen(app_context, view))
    if answer is None or answer == "again":
        return answer
    reply = await app_context.ask(lambda id_: Try(id=id_, run=view.id, do=answer))
    if answer == "discard":
        app_context.undo_stack.append(UndoableAction("removed", reply.runs, app_context.clock()))
        app_context.toast(f"{reply.notes[0]}: u brings them back for {UNDO_S:.0f} s", seconds=UNDO_S)
    else:
        app_context.undo_stack.append(UndoableAction("taken", (view.id,), app_context.clock()))
        app_context.toast(f"{reply.notes[0]}; u takes it back for {UNDO_S:.0f} s", seconds=UNDO_S)
    app_context.warn(reply.notes[1:])
    app_context.redraw()
    return answer


async def _begin_trial(app_context: AppContext, view: RunView, finding: Finding | None, said: str) -> None:
    """Begin the trial that was typed. The finding that is shown says where it branches off, whatever is tried."""
    words, budget, seeds = _options(said)
    about = "" if finding is None else finding.id
    if finding is not None and words == finding.advice_set:
        words = ()
    reply = await app_context.ask(
        lambda id_: Try(id=id_, run=view.id, finding=about, assignments=words, seeds=seeds, budget=budget)
    )
    app_context.undo_stack.append(UndoableAction("launched", reply.runs, app_context.clock()))
    app_context.toast(f"{reply.notes[0]}; V shows how it stands, u undoes for {UNDO_S:.0f} s", seconds=UNDO_S)
    app_context.warn(reply.warnings)
    app_context.redraw()


def _options(said: str) -> tuple[tuple[str, ...], str | None, int | None]:
    """Settings, budget and seeds as they were typed. Raises `UsageError`."""
    given, rest, typed_words = {"--budget": "", "--seeds": ""}, [], iter(words_of(said))
    for word in typed_words:
        name, equals, value = word.partition("=")
        if name in given:
            given[name] = value if equals else next(typed_words, "")
        else:
            rest.append(word)
    if given["--seeds"] and not given["--seeds"].isdecimal():
        raise UsageError(f"--seeds {given['--seeds'][:20]!r} is no number")
    return settings_in(" ".join(rest)), given["--budget"] or None, int(given["--seeds"]) if given["--seeds"] else None


VERBS: Mapping[str, Verb] = {"try": _try_}
