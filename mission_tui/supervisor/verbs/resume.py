"""Resume: a paused or frozen run goes on, an ended one gets another attempt, after the verdict on what would change.
One that trains is stopped for other settings, once that is accepted, and goes on from what it saves.

A branch is a new run that begins with the weights of another's checkpoint, whose files it takes along.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from functools import partial

from msgspec import structs
from msgspec.structs import replace

from mission_tui.errors import MissionError, PresetError, UsageError
from mission_tui.fleet.events.findings import harms_policy, stories
from mission_tui.fleet.events.journal import Asked, ResumeChoices
from mission_tui.fleet.events.processes import WaitSeen
from mission_tui.fleet.events.provenance import Origin, diff_of
from mission_tui.fleet.resume.judge import weights_may_fit
from mission_tui.fleet.resume.verdict import Change, ResumeVerdict, Terms
from mission_tui.fleet.specs.consistency import violations
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.text import clean
from mission_tui.ipc.replies import Accepted, VerdictReply
from mission_tui.ipc.requests import Resume
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.checkpoint import DamagedCheckpoint, Manifest, newest_intact, verify_checkpoint
from mission_tui.records.runs.code_files import check_rules
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.ending.ladder import stop_gracefully, thaw_run
from mission_tui.supervisor.launchers.order import attempt_order, needs_no_preflight, preflight, with_spec_env
from mission_tui.supervisor.lifecycle import first_attempts, further_attempts
from mission_tui.supervisor.lifecycle.attempts import LONGEST_WAIT_S, ask_checkpoints, first_turn, open_live_run
from mission_tui.supervisor.lifecycle.capacity import check_machine, refresh_reservations
from mission_tui.supervisor.lifecycle.further_attempts import start_again
from mission_tui.supervisor.lifecycle.outcome import resume_in_turn
from mission_tui.supervisor.lifecycle.run_queue import group_shortage
from mission_tui.supervisor.runs import resolve_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.run_directory import create_run, take_checkpoint
from mission_tui.supervisor.runs.targets import caller_for, check_seen, last_good, named_checkpoint, require


async def resume(core: Core, request: Resume) -> Accepted | VerdictReply:
    """Go on with a run. A verdict comes back instead when it was asked for, refuses, or warns and was not accepted.

    Raises `MissionError` when there is nothing to resume, or nothing to resume from.
    """
    await refresh_reservations(core)
    if request.branch:
        return await branch(core, request)
    run_id = resolve_run(core, request.run)
    check_seen(core, run_id, "resume")
    live = core.live.get(run_id)
    if live is not None:
        if request.assignments and _trains(core, live) and request.checkpoint is None:
            return await _stop_first(core, live, request)
        return _go_on(core, live, request)
    known, spec = core.store.run(run_id), core.store.run(run_id).spec
    if known.journal.attempt == 0 and request.checkpoint is None:
        order = core.seals.check(core.run_dir(run_id), 1).order
        if order is not None and spec is not None:
            return _back_in_queue(core, run_id, request, spec, order)
    if spec is not None and spec.run.command is not None:
        return _carry_out(core, run_id, request, further_attempts.plan_again(core, run_id, spec, request))
    checkpoint, damaged = await asyncio.to_thread(_checkpoint, core.run_dir(run_id), request.checkpoint)
    if checkpoint is None:
        return _anew(core, run_id, request, damaged)
    plan = await further_attempts.plan_attempt(core, run_id, request, checkpoint, request.assignments, damaged)
    return _carry_out(core, run_id, request, plan, await _harm(core, run_id, request, plan))


_STOPS = Change(
    "run",
    "training",
    "stopped, then resumed",
    "warn",
    "it saves and ends, and another attempt goes on from there; `set` changes some settings without that",
)
_waiting: set[asyncio.Task[None]] = set()
"""Resumes whose run has not ended yet; the event loop itself holds tasks only weakly."""


def _trains(core: Core, live: LiveRun) -> bool:
    known = core.store.run(live.id)
    ours = known.spec is not None and known.spec.run.command is None
    return ours and known.state == "running" and not live.wants_pause and not live.freezes


async def _stop_first(core: Core, live: LiveRun, request: Resume) -> Accepted | VerdictReply:
    """Stop the run, and go on with other settings when it has ended. Raises `MissionError` with nothing done."""
    name = core.store.view(live.id).name
    if live.applying:
        raise UsageError(f"{name} is ending to go on already ({live.applying}); wait for that")
    if core.store.view(live.id).last_checkpoint is None:
        await _save_first(core, live)
    plan = await _planned_from_newest(core, live.id, request)
    plan = replace(plan, verdict=further_attempts.warned(plan.verdict, (_STOPS,)))
    harm = await _harm(core, live.id, request, plan)
    room = further_attempts.room_for(core, live.id, plan.now, live)
    verdict = further_attempts.verdict_first(request, live.id, plan, room)
    if verdict is not None:
        return verdict
    if core.live.get(live.id) is not live or not _trains(core, live):
        raise UsageError(f"{name} has changed meanwhile; look again")
    live.end_to_apply("resume")
    core.record_verb(live, "stop")
    stop_gracefully(core, live)
    task = asyncio.create_task(_go_on_once_ended(core, live, request))
    _waiting.add(task)
    task.add_done_callback(_waiting.discard)
    warnings = (*harm, *room.warnings)
    notes = ("it stops first, then goes on from what it saves", *plan.notes, *warnings)
    return Accepted(re=request.id, runs=(live.id,), notes=notes, warnings=warnings)


async def _save_first(core: Core, live: LiveRun) -> None:
    """Have the run save a checkpoint, as the key `C` does: what would change is judged from one. Raises `MissionError`
    where none came.
    """
    name = core.store.view(live.id).name
    if live.link is None:
        raise MissionError(f"{name} has no checkpoint to go on from yet: its trainer is not connected; try again")
    (outcome,) = await ask_checkpoints(core, (live,), LONGEST_WAIT_S)
    if outcome.checkpoint is None:
        raise MissionError(f"{name} has no checkpoint to go on from yet: {outcome.why}")


async def _planned_from_newest(core: Core, run_id: str, request: Resume) -> further_attempts.Plan:
    checkpoint, damaged = await asyncio.to_thread(newest_intact, core.run_dir(run_id).checkpoints)
    if checkpoint is None:
        name = core.store.view(run_id).name
        raise MissionError(f"{name} has no checkpoint yet; `mission-tui checkpoint {name}` saves one")
    return await further_attempts.plan_attempt(core, run_id, request, checkpoint, request.assignments, damaged)


async def _go_on_once_ended(core: Core, live: LiveRun, request: Resume) -> None:
    try:
        # Nobody may take the name between the end of this attempt and the start of the next one.
        with core.names.held(core.store.view(live.id).name, live.id):
            await live.gone.wait()
            journal = core.store.run(live.id).journal
            if "kill" in journal.asked or not live.applying or core.leaving.done():
                raise UsageError("it was asked to end for good meanwhile")
            plan = await _planned_from_newest(core, live.id, request)
            if core.store.run(live.id).journal.attempt != live.attempt:
                raise UsageError("it was resumed meanwhile")
            further_attempts.start_attempt(core, live.id, plan)
    except MissionError as error:
        core.fail_for(
            live.id, "resume", f"it was stopped and could not go on with {' '.join(request.assignments)}: {error}"
        )


async def _harm(core: Core, run_id: str, request: Resume, plan: further_attempts.Plan) -> tuple[str, ...]:
    """That the checkpoint is from after a critical finding began, and what would go back to before it: a sentence where
    nobody asked for that checkpoint, and the verdict does not say it already.
    """
    told = any(change.name == "policy" for change in plan.verdict.changes)
    if request.checkpoint is not None or request.check_only or told:
        return ()
    findings = tuple(core.store.run(run_id).journal.findings.values())
    harms = [
        it
        for it in stories(findings)
        if harms_policy(it)
        and it.severity == "critical"
        and it.attempt == plan.checkpoint.attempt
        and it.suspect_from <= plan.checkpoint.update
    ]
    if not harms:
        return ()
    first = min(harms, key=lambda it: it.suspect_from)
    good = await asyncio.to_thread(last_good, core.run_dir(run_id), first, findings)
    name, since = core.name_of(run_id), f"{first.rule} since update {first.suspect_from:,}"
    said = f"{plan.checkpoint.name} is harmed ({since})"
    sets = [word for it in first.advice_set for word in ("--set", it)]
    if good is None:
        words = shlex.join(["mission-tui", "clone", name, *sets])
        return (f"{said}, and none from before is left: `{words}` begins anew",)
    advice = f" with {' '.join(sets)}" if sets else ""
    words = shlex.join(["mission-tui", "findings", name, "--apply", first.id])
    # What it is about comes first: a toast has room for two lines.
    return (f"{said}: to go back to {good.name}{advice}, `{words}`",)


def _carry_out(
    core: Core, run_id: str, request: Resume, plan: further_attempts.NextAttempt, harm: tuple[str, ...] = ()
) -> Accepted | VerdictReply:
    room, why = further_attempts.room_for(core, run_id, plan.now), group_shortage(core, run_id, plan.now, time.time())
    if why and isinstance(room.refusal, PresetError):
        # What the machine lacks now it may have when the run's turn comes.
        room = further_attempts.StartCheck()
    verdict = further_attempts.verdict_first(request, run_id, plan, room)
    if verdict is not None:
        return verdict
    if why:
        return _in_turn(core, run_id, request, why, plan)
    further_attempts.start_attempt(core, run_id, plan)
    warnings = (*harm, *room.warnings)
    return Accepted(
        re=request.id,
        runs=(run_id,),
        notes=(*plan.notes, *warnings),
        damaged=plan.passed_over,
        checkpoint=plan.start or "",
        remedies=plan.remedies,
        warnings=warnings,
    )


def _in_turn(
    core: Core, run_id: str, request: Resume, why: str, plan: further_attempts.NextAttempt | None = None
) -> Accepted:
    """Have the run go on when its group lets it, which `why` says in a sentence, as a restart that is due."""
    checkpoint = plan.start if plan is not None and request.checkpoint is not None else None
    choices = ResumeChoices(checkpoint, request.assignments, request.remedies, request.overrides)
    resume_in_turn(core, run_id, choices)
    core.apply(run_id, WaitSeen(why))
    note = f"{core.name_of(run_id)} goes on in its turn: it {why}"
    # The screen has shown what changes before it was accepted, and says then only what is a warning.
    notes = (*(() if plan is None else plan.notes), note)
    return Accepted(re=request.id, runs=(run_id,), notes=notes, warnings=(note,))


def _anew(core: Core, run_id: str, request: Resume, damaged: tuple[DamagedCheckpoint, ...]) -> Accepted | VerdictReply:
    """Begin a run without a checkpoint again, as it was: it failed, or was ended, before its first."""
    known = core.store.run(run_id)
    if damaged:
        raise MissionError(
            f"cannot resume {known.journal.name}: none of its checkpoints is whole ({clean(damaged[0].why)}); "
            "restore the files of one from a copy, or launch it again"
        )
    name = known.journal.name
    if any(origin.kind == "imported" for origin in core.store.view(run_id).origins):
        raise MissionError(f"cannot resume {name}: it was imported without a checkpoint to go on from")
    if request.assignments or request.remedies or request.overrides:
        raise MissionError(
            f"cannot resume {name} with other settings: it has no checkpoint to go on from; without --set it begins "
            f"anew, and `clone {name} --set ...` makes another run"
        )
    if request.check_only:
        not_now = "" if known.spec is None else further_attempts.room_for(core, run_id, known.spec).not_now
        verdict = ResumeVerdict("safe")
        return VerdictReply(re=request.id, run=run_id, verdict=verdict, accept_needed=False, not_now=not_now)
    if known.spec is not None and (why := group_shortage(core, run_id, known.spec, time.time())):
        return _in_turn(core, run_id, request, why)
    start_again(core, run_id, caller_for(core, run_id, request), None)
    return Accepted(re=request.id, runs=(run_id,), notes=("it has no checkpoint, so it begins anew",))


def _back_in_queue(core: Core, run_id: str, request: Resume, spec: Spec, order: LaunchOrder) -> Accepted | VerdictReply:
    """Let a run that was ended before it began wait for its first attempt again, as it was launched."""
    name = core.name_of(run_id)
    if request.assignments or request.remedies or request.overrides:
        raise UsageError(
            f"cannot resume {name} with other settings: it never began; without --set it waits in the queue again, and "
            f"`set {name} ...` changes it there"
        )
    core.check_room()
    further_attempts.check_own_name(core, run_id)
    warnings = check_machine(core, (spec,), waits=True)
    if request.check_only:
        return VerdictReply(re=request.id, run=run_id, verdict=ResumeVerdict("safe"), accept_needed=False)
    check_rules(core.run_dir(run_id).snapshot)
    recalled = core.variables.recover(order, spec, request.environ).caller.environ
    values = {variable: recalled[variable] for variable in order.withheld if variable in recalled}
    core.record_request_of(run_id, lambda seq, t: Asked(seq, t, "resume", 0))
    run = open_live_run(core, core.run_dir(run_id), spec)
    first_turn(core, run, structs.replace(order, env=order.env | values))()
    why = core.store.run(run_id).observed.waits if run.turn is not None else ""
    if why:
        # How many share the cores is known when it begins.
        note, warnings = f"{name} never began, and waits in the queue again: it {why}", ()
    else:
        note = f"{name} never began, and begins now"
    return Accepted(re=request.id, runs=(run_id,), notes=(note, *warnings), warnings=warnings)


def _go_on(core: Core, run: LiveRun, request: Resume) -> Accepted | VerdictReply:
    """Let a paused or frozen run go on, or take back a pause that it has not reached yet."""
    name = core.store.view(run.id).name
    state = core.store.run(run.id).state
    if run.id in core.variables.lacking and (run.turn is not None or run.unbegun is not None):
        return _give_variables(core, run, request)
    if state == "stopping" or not (run.freezes or run.wants_pause or state in ("paused", "frozen")):
        raise UsageError(f"cannot resume {name}: it is {state}")
    if state == "frozen" and not run.launcher.can.freezes:
        raise UsageError(f"cannot resume {name} from here: {core.store.view(run.id).cause}")
    if request.assignments or request.checkpoint:
        raise UsageError(f"{name} is {state} and goes on as it is; stop it first to resume with changes")
    holds = run.freezes or state == "frozen"
    if run.link is None and not holds:
        raise MissionError(f"cannot resume {name} now: its trainer is not connected; try again in a moment")
    if request.check_only:
        return VerdictReply(re=request.id, run=run.id, verdict=ResumeVerdict("safe"), accept_needed=False)
    core.record_verb(run, "resume")
    if holds:
        thaw_run(core, run)
    run.unpause()
    return Accepted(re=request.id, runs=(run.id,))


def _give_variables(core: Core, run: LiveRun, request: Resume) -> Accepted:
    """Let a run that waits for variables have those of the shell that asks; it begins when it is its turn."""
    name = core.store.view(run.id).name
    if request.assignments or request.checkpoint or request.check_only:
        raise UsageError(f"{name} waits for variables: resume gives it those of your shell and changes nothing else")
    names = core.variables.supply(run.id, request.environ or {})
    core.apply(run.id, WaitSeen(""))
    given = f"with {', '.join(names)} of your shell" if names else "what was missing is available again"
    return Accepted(re=request.id, runs=(run.id,), notes=(f"{name} begins in its turn: {given}",))


def _checkpoint(run: RunDir, name: str | None) -> tuple[Manifest | None, tuple[DamagedCheckpoint, ...]]:
    """The asked checkpoint, or the newest that verifies and the damaged ones after it; every byte of it was read.

    Raises `MissionError`.
    """
    if name is None:
        return newest_intact(run.checkpoints)
    return verify_checkpoint(run.checkpoints / named_checkpoint(run, name)), ()


async def branch(core: Core, request: Resume) -> Accepted | VerdictReply:
    """Make and start the new run; with `check_only`, say what differs. Raises `MissionError` with nothing made."""
    run_id = resolve_run(core, request.run)
    require(core, run_id, "branch")
    source = core.run_dir(run_id)
    damaged: tuple[DamagedCheckpoint, ...] = ()
    if request.checkpoint is not None:
        name = await asyncio.to_thread(named_checkpoint, source, request.checkpoint)
        checkpoint: Manifest | None = await asyncio.to_thread(verify_checkpoint, source.checkpoints / name)
    else:
        checkpoint, damaged = await asyncio.to_thread(newest_intact, source.checkpoints)
    if checkpoint is None:
        raise MissionError(f"cannot branch from {core.store.view(run_id).name}: it has no checkpoint yet")
    plan = await further_attempts.plan_attempt(core, run_id, request, checkpoint, request.assignments)
    if not weights_may_fit(plan.was, plan.now):
        said = f"no weight of {checkpoint.name} fits a network of these layers"
        raise UsageError(f"cannot branch like this: {said}; clone starts a new run without the weights")
    room = further_attempts.room_for(core, run_id, plan.now, own_name=False)
    if request.check_only:
        return VerdictReply(
            re=request.id,
            run=run_id,
            verdict=plan.verdict,
            accept_needed=True,
            checkpoint=checkpoint.name,
            not_now=room.not_now,
        )
    room.check()
    for violation in violations(plan.now):
        raise UsageError(f"cannot branch like this: {violation.sentence}")
    made = await _make_branch(core, run_id, request, plan)
    note = (
        f"{core.store.view(made).name} begins with the weights of {core.store.view(run_id).name} at {checkpoint.name}"
    )
    lost = tuple(change.why for change in further_attempts.damaged_changes(checkpoint, damaged))
    passed_over = tuple(each.name for each in damaged)
    notes, warnings = (note, *lost, *room.warnings), (*lost, *room.warnings)
    return Accepted(re=request.id, runs=(made,), notes=notes, damaged=passed_over, warnings=warnings)


async def _make_branch(core: Core, source_id: str, request: Resume, plan: further_attempts.Plan) -> str:
    """The new run, started."""
    source_name, source = core.store.view(source_id).name, core.run_dir(source_id)
    with first_attempts.new_run(core, request.name, f"{source_name[:24]}-branch") as (run, name):
        if not needs_no_preflight(plan.now):
            await preflight(plan.now, with_spec_env(plan.now, plan.caller))
        spec = _seeded(plan.now, request.assignments)
        terms = Terms(weights_from=plan.checkpoint.name)
        taken = source.checkpoints / plan.checkpoint.name
        order = attempt_order(core.root, run, 1, spec, plan.caller, None)
        origin = Origin("branch", source_id, source_name, plan.checkpoint.name, diff_of(plan.verdict.changes))
        rules = first_attempts.rules_for(core, source, plan.was, plan.now, plan.caller)
        made = partial(create_run, core.root, core.seals, run, spec, order, rules, name, request.group)
        created = await asyncio.to_thread(
            made, origin=origin, fill=lambda it: take_checkpoint(taken, it.origin, terms, it)
        )
        first_attempts.begin_first_attempt(core, run, spec, order, created, terms)
        return run.id


def _seeded(spec: Spec, assignments: tuple[str, ...]) -> Spec:
    """A seed of its own, so that the source's episodes are not replayed; one that was asked for stays."""
    if any(word.partition("=")[0].strip() == "run.seed" for word in assignments):
        return spec
    return first_attempts.with_seed(spec, anew=True)
