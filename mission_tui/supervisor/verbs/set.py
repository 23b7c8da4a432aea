"""Set: other settings for a run that trains, judged like those of a resume and taken over at its next update boundary;
for one that waits in the queue those that it begins with.

What was accepted is journaled before the trainer hears of it, so that it holds for every later attempt whatever happens
in between; the trainer's own record says since when it is in effect.
"""

from __future__ import annotations

from functools import partial

from msgspec import structs

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.journal import PriorityAsked, SettingsAsked
from mission_tui.fleet.resume import ResumeFacts, judge_resume
from mission_tui.fleet.resume.verdict import Change, ResumeVerdict
from mission_tui.fleet.specs.live_settings import check_live
from mission_tui.fleet.specs.preset import draft_change
from mission_tui.fleet.specs.spec import LIVE_KEYS, Spec
from mission_tui.ipc.replies import Accepted, VerdictReply
from mission_tui.ipc.requests import Set
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.supervisor.lifecycle.further_attempts import clipped_share, without_remedies
from mission_tui.supervisor.lifecycle.queued_settings import PRIORITY, proposed, set_queued
from mission_tui.supervisor.runs.catalog import resolve_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.targets import check_seen


async def set_(core: Core, request: Set) -> Accepted | VerdictReply:
    """Set them. A verdict comes back instead when it was asked for, refuses, or warns and was not accepted.

    Raises `MissionError` for a run that does not train and for a setting that cannot be changed while one does.
    """
    run_id = resolve_run(core, request.run)
    if all(word.partition("=")[0].strip() == PRIORITY for word in request.assignments):
        return _moved(core, run_id, request)
    check_seen(core, run_id, "set that of")
    if (waiting := core.live.get(run_id)) is not None and waiting.turn is not None:
        return await _set_queued(core, waiting, request)
    live, was = _training(core, run_id)
    check_live(was, request.assignments)
    now = draft_change(was, request.assignments)
    row = core.store.run(run_id).metrics.row
    facts = ResumeFacts(0 if row is None else row.timesteps, grad_clipped_share=clipped_share(core, run_id))
    verdict = _in_words(judge_resume(was, now, facts))
    grade = verdict.grade
    if request.check_only or grade == "refuse" or (grade == "warn" and not request.accept):
        return VerdictReply(re=request.id, run=run_id, verdict=verdict, accept_needed=grade == "warn")
    if not verdict.changes:
        return Accepted(re=request.id, runs=(run_id,), notes=(f"{_name(core, run_id)} has these settings already",))
    words = request.assignments
    asked = partial(SettingsAsked, attempt=live.attempt, assignments=words, changes=without_remedies(verdict))
    event = core.record_request(live, lambda seq, t: asked(seq, t, total_timesteps=now.run.total_timesteps))
    core.store.replace_spec(run_id, now)
    live.send(Order("set", number=event.seq, assignments=words))
    notes = tuple(f"{it.name}: {it.was} -> {it.now} from the next update on: {it.why}" for it in verdict.changes)
    return Accepted(re=request.id, runs=(run_id,), notes=notes)


async def _set_queued(core: Core, run: LiveRun, request: Set) -> Accepted | VerdictReply:
    """Nothing was learned yet that a change could harm, so that it is only shown where that is asked for."""
    _, verdict = proposed(core, run, request.assignments)
    if request.check_only:
        return VerdictReply(re=request.id, run=run.id, verdict=verdict, accept_needed=False)
    if not verdict.changes:
        return Accepted(re=request.id, runs=(run.id,), notes=(f"{_name(core, run.id)} has these settings already",))
    return Accepted(re=request.id, runs=(run.id,), notes=await set_queued(core, run, request.assignments))


def _moved(runs: Runs, run_id: str, request: Set) -> Accepted:
    """Another place in the line for a run that waits. Raises `UsageError` for one that does not."""
    known = runs.store.run(run_id)
    if known.state != "queued" or known.spec is None:
        raise UsageError(f"{_name(runs, run_id)} is not queued, and {PRIORITY} only orders runs that wait in the queue")
    # Whatever it is now, only the new value is of interest, which is checked like any setting.
    priority = draft_change(known.spec, request.assignments).keep.limits.priority
    runs.record_request_of(run_id, lambda seq, t: PriorityAsked(seq, t, priority))
    return Accepted(re=request.id, runs=(run_id,), notes=(f"{_name(runs, run_id)} waits with priority {priority}",))


def _name(runs: Runs, run_id: str) -> str:
    return runs.store.view(run_id).name


def _training(runs: Runs, run_id: str) -> tuple[LiveRun, Spec]:
    """The live run and what it trains with. Raises `MissionError`."""
    live, known = runs.live.get(run_id), runs.store.run(run_id)
    if live is None or known.state == "stopping":
        state = "stopping" if live is not None else "not training"
        raise UsageError(f"{_name(runs, run_id)} is {state}; `resume --set` goes on with other settings")
    if known.spec is None:
        raise MissionError(f"the spec of {_name(runs, run_id)} cannot be read, so what a change does is not known")
    if live.link is None:
        raise MissionError(f"cannot set that now: the trainer of {_name(runs, run_id)} is not connected; try again")
    return live, known.spec


def _in_words(verdict: ResumeVerdict) -> ResumeVerdict:
    """The verdict with the remedies that are settings, as words to add; all others are done by a resume."""
    return structs.replace(verdict, changes=tuple(map(_said, verdict.changes)))


def _said(change: Change) -> Change:
    settings = (it for it in change.remedies if it.assignments)
    fitting = (it for it in settings if all(word.partition("=")[0] in LIVE_KEYS for word in it.assignments))
    advice = "; or ".join(f"{' '.join(it.assignments)}: {it.what}" for it in fitting)
    return structs.replace(change, remedy=advice, remedies=(), override=False)
