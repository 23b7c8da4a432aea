"""Set and apply: other settings for a run, as a person writes them or as a finding advises them.

Set is judged like a resume and taken over at the next update boundary; for a run that waits in the queue it changes
what that begins with. What was accepted is journaled before the trainer hears of it, so that it holds for every later
attempt whatever happens in between; the trainer's own record says since when it is in effect.

Apply follows a finding's advice by another attempt from the last good checkpoint with the advised changes. A live run
is stopped first and goes on once it has ended; whatever comes in between is journaled with the finding. The last good
checkpoint is on the run's own line of attempts, from before the finding, and read back byte by byte. What began after a
change of settings is mended by undoing the change, whichever of its symptoms is meant: in place while the policy is
unharmed, else from the checkpoint before with the settings of then.
"""

from __future__ import annotations

import asyncio
import shlex
from functools import partial

from msgspec import structs

from mission_tui.errors import MissionError, PresetError, UsageError
from mission_tui.fleet.events.findings import Finding, harmed_from
from mission_tui.fleet.events.journal import FleetEvent, HealthActed, PriorityAsked, SettingsAsked
from mission_tui.fleet.resume.judge import judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.resume.verdict import Change, ResumeVerdict
from mission_tui.fleet.specs.preset import check_live, draft_change, is_live
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.replies import Accepted, VerdictReply
from mission_tui.ipc.requests import Apply, Set
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.records.runs.checkpoint import verify_checkpoint
from mission_tui.supervisor.ending.ladder import stop_gracefully
from mission_tui.supervisor.lifecycle import further_attempts
from mission_tui.supervisor.lifecycle.capacity import refresh_reservations
from mission_tui.supervisor.lifecycle.run_queue import PRIORITY, proposed, set_queued
from mission_tui.supervisor.runs import resolve_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.journal import requester
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.targets import check_seen, last_good, require, the_finding
from mission_tui.supervisor.watching.finding_actions import keep_last_good

_waiting: set[asyncio.Task[None]] = set()
"""Applications whose run has not ended yet; the event loop itself holds tasks only weakly."""


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
    facts = ResumeFacts(
        0 if row is None else row.timesteps, grad_clipped_share=further_attempts.clipped_share(core, run_id)
    )
    verdict = _in_words(judge_resume(was, now, facts))
    grade = verdict.grade
    if request.check_only or grade == "refuse" or (grade == "warn" and not request.accept):
        return VerdictReply(re=request.id, run=run_id, verdict=verdict, accept_needed=grade == "warn")
    if not verdict.changes:
        return Accepted(re=request.id, runs=(run_id,), notes=(f"{_name(core, run_id)} has these settings already",))
    words = request.assignments
    asked = partial(
        SettingsAsked, attempt=live.attempt, assignments=words, changes=further_attempts.without_remedies(verdict)
    )
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
    fitting = (it for it in settings if all(is_live(word.partition("=")[0]) for word in it.assignments))
    advice = "; or ".join(f"{' '.join(it.assignments)}: {it.what}" for it in fitting)
    return structs.replace(change, remedy=advice, remedies=(), override=False)


async def apply(core: Core, request: Apply) -> Accepted | VerdictReply:
    """Go back and on with the advice. A verdict comes back instead when it was asked for, refuses, or was not accepted.

    Raises `MissionError` when the advice is nothing that a resume can do, or there is no checkpoint from before.
    """
    await refresh_reservations(core)
    run_id = resolve_run(core, request.run)
    require(core, run_id, "apply")
    check_seen(core, run_id, "apply")
    finding = _to_follow(core, run_id, request.finding)
    _check(core, run_id, finding)
    if finding.undo == "set" and core.store.run(run_id).state in ("running", "paused"):
        return await _undo_in_place(core, run_id, finding, request)
    attempt = core.store.run(run_id).journal.attempt
    plan = await _planned(core, run_id, finding, request)
    live = core.live.get(run_id)
    room = further_attempts.room_for(core, run_id, plan.now, live)
    if live is not None:
        # A person may think about it while the finding clears and retention goes on.
        live.offer(plan.checkpoint.name)
        keep_last_good(core, live)
    verdict = further_attempts.verdict_first(request, run_id, plan, room)
    if verdict is not None:
        return verdict
    if core.store.run(run_id).journal.attempt != attempt:
        raise UsageError(f"{core.store.view(run_id).name} was resumed meanwhile; look at its findings again")
    if live is None:
        further_attempts.start_attempt(core, run_id, plan)
        core.record_observed_of(run_id, partial(_applied, finding, _words(finding, plan)))
        return Accepted(re=request.id, runs=(run_id,), notes=(*plan.notes, *room.warnings), warnings=room.warnings)
    _check(core, run_id, finding)
    _end_first(core, live, finding, plan)
    stops = f"it stops first, then goes on from {plan.checkpoint.name}"
    notes = (stops, *plan.notes, *room.warnings)
    return Accepted(re=request.id, runs=(run_id,), notes=notes, warnings=room.warnings)


def _to_follow(runs: Runs, run_id: str, finding_id: str) -> Finding:
    """The finding, or the change that brought it about: what that undoes must not be kept when going back."""
    finding = the_finding(runs, run_id, finding_id)
    cause = runs.store.run(run_id).journal.findings.get(finding.part_of)
    return cause if cause is not None and cause.undo else finding


async def _undo_in_place(core: Core, run_id: str, finding: Finding, request: Apply) -> Accepted | VerdictReply:
    asked = Set(
        id=request.id,
        run=run_id,
        assignments=finding.advice_set,
        accept=request.accept,
        check_only=request.check_only,
    )
    reply = await set_(core, asked)
    if isinstance(reply, Accepted):
        detail = " ".join(f"--set {word}" for word in finding.advice_set)
        core.record_observed_of(run_id, partial(_applied, finding, detail))
    return reply


def _check(runs: Runs, run_id: str, finding: Finding) -> None:
    name, live = runs.store.view(run_id).name, runs.live.get(run_id)
    if live is not None and live.applying:
        raise UsageError(f"{name} is ending to follow the advice of {live.applying}; wait for that")
    if not finding.applicable:
        advice = f"; a resume cannot follow its advice: {finding.advice}" if finding.advice else ""
        raise UsageError(f"{finding.id} is only information, and there is nothing to apply{advice}")


async def _planned(core: Core, run_id: str, finding: Finding, request: Apply) -> further_attempts.Plan:
    name = core.store.view(run_id).name
    others = tuple(core.store.run(run_id).journal.findings.values())
    checkpoint = await asyncio.to_thread(last_good, core.run_dir(run_id), finding, others)
    agreed = request.checkpoint
    if agreed is not None and (checkpoint is None or checkpoint.name != agreed):
        raise MissionError(f"{name} has no checkpoint {agreed} from before {finding.rule} any more; look again")
    if checkpoint is None:
        raise MissionError(
            f"{name} has no checkpoint from before update {harmed_from(finding, others):,}, where its trouble began; "
            f"{shlex.join(['mission-tui', 'clone', name, *_set_words(finding)])} starts it anew with the advice"
        )
    try:
        return await further_attempts.plan_attempt(core, run_id, request, checkpoint, finding.advice_set)
    except (UsageError, PresetError) as error:
        raise UsageError(f"a resume cannot follow the advice of {finding.id}: {error}") from error


def _set_words(finding: Finding) -> tuple[str, ...]:
    return tuple(word for assignment in finding.advice_set for word in ("--set", assignment))


def _words(finding: Finding, plan: further_attempts.Plan) -> str:
    return " ".join((f"from {plan.checkpoint.name}", *_set_words(finding)))


def _applied(finding: Finding, detail: str, seq: int, t: float) -> FleetEvent:
    return HealthActed(seq, t, finding.id, "applied", detail, requester())


def _end_first(core: Core, live: LiveRun, finding: Finding, plan: further_attempts.Plan) -> None:
    """Stop the run, which keeps the checkpoint that is gone back to, and go on with the plan when it has ended."""
    core.record_request(live, partial(_applied, finding, f"stops, then goes on {_words(finding, plan)}"))
    live.end_to_apply(finding.id)
    if not core.store.run(live.id).journal.asked & {"stop", "kill"}:
        core.record_verb(live, "stop")
    stop_gracefully(core, live, keep=plan.checkpoint.name)
    task = asyncio.create_task(_go_on(core, live, finding, plan))
    _waiting.add(task)
    task.add_done_callback(_waiting.discard)


async def _go_on(core: Core, live: LiveRun, finding: Finding, plan: further_attempts.Plan) -> None:
    try:
        # Nobody may take the name between the end of this attempt and the start of the next one.
        with core.names.held(core.store.view(live.id).name, live.id):
            await live.gone.wait()
            await _go_on_unless_changed(core, live, plan)
    except MissionError as error:
        core.record_observed_of(live.id, partial(_applied, finding, f"could not go on: {error}"))


async def _go_on_unless_changed(core: Core, live: LiveRun, plan: further_attempts.Plan) -> None:
    await asyncio.to_thread(verify_checkpoint, core.run_dir(live.id).checkpoints / plan.checkpoint.name)
    journal = core.store.run(live.id).journal
    if "kill" in journal.asked:
        raise UsageError("it was killed meanwhile")
    if not live.applying or core.leaving.done():
        raise UsageError("it was asked to stop for good meanwhile")
    if journal.attempt != live.attempt:
        raise UsageError("it was resumed meanwhile")
    further_attempts.start_attempt(core, live.id, plan)
