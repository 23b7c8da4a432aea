"""Resume: a paused or frozen run goes on, an ended one gets another attempt, after the verdict on what would change."""

from __future__ import annotations

import asyncio

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.observations import WaitSeen
from mission_tui.fleet.resume.verdict import ResumeVerdict
from mission_tui.fleet.text import clean
from mission_tui.ipc.replies import Accepted, VerdictReply
from mission_tui.ipc.requests import Resume
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.records.runs.checkpoint import DamagedCheckpoint, Manifest, newest_intact, verify_checkpoint
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.catalog import resolve_run
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending.freezing import thaw_run
from mission_tui.supervisor.run import LiveRun
from mission_tui.supervisor.starting.another_attempt import (
    NextAttempt,
    Plan,
    check_place,
    plan_again,
    plan_attempt,
    start_attempt,
    verdict_first,
)
from mission_tui.supervisor.starting.branching import branch
from mission_tui.supervisor.starting.live_load import refresh_reservations
from mission_tui.supervisor.starting.restart_attempt import start_again
from mission_tui.supervisor.starting.variables import supply
from mission_tui.supervisor.subject import caller_for, named_checkpoint
from mission_tui.supervisor.targets import check_seen

__all__ = ["resume"]


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
        return _go_on(core, live, request)
    spec = core.store.run(run_id).spec
    if spec is not None and spec.run.command is not None:
        return _carry_out(core, run_id, request, plan_again(core, run_id, spec, request))
    checkpoint, damaged = await asyncio.to_thread(_checkpoint, core.run_dir(run_id), request.checkpoint)
    if checkpoint is None:
        return _anew(core, run_id, request, damaged)
    plan = await plan_attempt(core, run_id, request, checkpoint, request.assignments, damaged)
    return _carry_out(core, run_id, request, plan)


def _carry_out(core: Core, run_id: str, request: Resume, plan: NextAttempt) -> Accepted | VerdictReply:
    lacking = check_place(core, run_id, plan)
    verdict = verdict_first(request, run_id, plan)
    if verdict is not None:
        return verdict
    start_attempt(core, run_id, plan)
    passed_over = tuple(each.name for each in plan.damaged) if isinstance(plan, Plan) else ()
    return Accepted(re=request.id, runs=(run_id,), notes=(*plan.notes, *lacking), damaged=passed_over)


def _anew(core: Core, run_id: str, request: Resume, damaged: tuple[DamagedCheckpoint, ...]) -> Accepted | VerdictReply:
    """Begin a run without a checkpoint again, if it would do so by itself, and as it was."""
    known = core.store.run(run_id)
    if damaged:
        raise MissionError(
            f"cannot resume {known.journal.name}: none of its checkpoints is whole ({clean(damaged[0].why)}); "
            "restore the files of one from a copy, or launch it again"
        )
    if known.journal.restart is None or request.assignments or request.remedies or request.overrides:
        raise MissionError(f"cannot resume {known.journal.name}: it has no checkpoint to go on from; launch it again")
    if request.check_only:
        return VerdictReply(re=request.id, run=run_id, verdict=ResumeVerdict("safe"), accept_needed=False)
    start_again(core, run_id, caller_for(core, run_id, request), None)
    return Accepted(re=request.id, runs=(run_id,), notes=("it has no checkpoint, so it begins anew",))


def _go_on(core: Core, run: LiveRun, request: Resume) -> Accepted:
    """Let a paused or frozen run go on, or take back a pause that it has not reached yet."""
    name = core.store.view(run.id).name
    state = core.store.run(run.id).state
    if run.id in core.lacking and (run.turn is not None or run.unbegun is not None):
        return _give_variables(core, run, request)
    if state == "stopping" or not (run.freezes or run.wants_pause or state in ("paused", "frozen")):
        raise UsageError(f"cannot resume {name}: it is {state}")
    if request.assignments or request.checkpoint:
        raise UsageError(f"{name} is {state} and goes on as it is; stop it first to resume with changes")
    holds = run.freezes or state == "frozen"
    if run.link is None and not holds:
        raise MissionError(f"cannot resume {name} now: its trainer is not connected; try again in a moment")
    core.record_verb(run, "resume")
    run.wants_pause = False
    if holds:
        thaw_run(core, run)
    if run.link is not None:
        run.link.send(Order("unpause"))
    return Accepted(re=request.id, runs=(run.id,))


def _give_variables(core: Core, run: LiveRun, request: Resume) -> Accepted:
    """Let a run that waits for variables have those of the shell that asks; it begins when it is its turn."""
    name = core.store.view(run.id).name
    if request.assignments or request.checkpoint or request.check_only:
        raise UsageError(f"{name} waits for variables and begins as it is; resume gives it those of your shell")
    names = supply(core, run.id, request.environ or {})
    core.lacking.pop(run.id, None)
    core.apply(run.id, WaitSeen(""))
    given = f"with {', '.join(names)} of your shell" if names else "what it lacked is there again"
    return Accepted(re=request.id, runs=(run.id,), notes=(f"{name} begins in its turn: {given}",))


def _checkpoint(run: RunDir, name: str | None) -> tuple[Manifest | None, tuple[DamagedCheckpoint, ...]]:
    """The asked checkpoint, or the newest that verifies and the damaged ones after it; every byte of it was read.

    Raises `MissionError`.
    """
    if name is None:
        return newest_intact(run.checkpoints)
    return verify_checkpoint(run.checkpoints / named_checkpoint(run, name)), ()
