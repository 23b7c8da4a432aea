"""The life of an attempt as seen from here: handed to its launcher, watched, asked for checkpoints, and ended with a
cause.

`watch_or_finish` may be called at any time: it looks at the disk and at who lives, and goes on from there. No attempt
ends while somebody owns the run: who cannot be seen from here, in another container, lives all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from mission_tui.errors import DamagedError, MissionError
from mission_tui.fleet.events.journal import ENDING, AttemptStarting, FindingChanged, KeeperLost
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.fleet.events.outcome import Failed
from mission_tui.fleet.events.processes import FlagSeen, NodeSeen, Pids, PidsSeen, WaitSeen
from mission_tui.fleet.events.provenance import sources_of
from mission_tui.fleet.health import cleared
from mission_tui.fleet.history.restart_policy import ASKED, Row
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Change, Terms
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.replies import CheckpointOutcome
from mission_tui.ipc.telemetry_messages import CheckpointAnswered, Order
from mission_tui.records.jsonl import MOST_BYTES, Tail
from mission_tui.records.runs.attempt import ExitRecord, Handle, LaunchOrder, read_exit, read_handle, read_terms
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.ending.ladder import resume_ending
from mission_tui.supervisor.host.children import limits_lacking
from mission_tui.supervisor.host.process_files import descendants
from mission_tui.supervisor.launchers.order import Caller, with_script_python
from mission_tui.supervisor.lifecycle.capacity import with_placement
from mission_tui.supervisor.lifecycle.outcome import abandon, finish, sweep
from mission_tui.supervisor.lifecycle.run_queue import as_set, ends_of_others, must_wait
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.journal import damaged, requester
from mission_tui.supervisor.runs.live_run import AskedCheckpoint, LiveRun
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.variables import LackingVariablesError
from mission_tui.supervisor.watching.metrics_feed import read_everything, still_follows

log = logging.getLogger(__name__)


def open_live_run(core: Core, run_dir: RunDir, spec: Spec | None, *, slice_bytes: int = MOST_BYTES) -> LiveRun:
    """Make the run live here: its journal, its metrics and its judge, as its files have them now.

    Of its metrics `slice_bytes` at most are read; its tail says whether there are more.
    """
    journal = core.store.run(run_dir.id).journal
    # Of an attempt that has ended nothing is asked any more, and the next one may be carried out elsewhere.
    handle = _handle(run_dir, journal.attempt) if journal.outcome is None else None
    run = LiveRun(
        dir=run_dir,
        spec=spec,
        launcher=core.launcher_for(spec, handle),
        journal=core.take_journal(run_dir, journal.seq),
        tail=Tail(run_dir.metrics, MetricRecord),
        attempt=journal.attempt,
        handle=handle,
    )
    run.tail.slice_bytes = slice_bytes
    core.live[run.id] = run
    torn = run.journal.open()
    if torn is not None:
        core.record_observed(run, damaged(run_dir.events.name, torn))
    read_everything(core, run)
    return run


def _handle(run_dir: RunDir, attempt: int) -> Handle | None:
    with suppress(DamagedError, OSError):
        return read_handle(run_dir.attempt(attempt).handle)
    return None


def begin(
    core: Core,
    run: LiveRun,
    order: LaunchOrder,
    *,
    checkpoint: str | None = None,
    changes: tuple[Change, ...] = (),
    terms: Terms = AS_IT_WAS,
    row: Row = ASKED,
    by: str | None = None,
    waited: bool = False,
) -> None:
    """Have the written `order` carried out, a new run's when its turn has come. `by`: who asked; None is who asks now.

    One that has `waited` in the queue gets its variables as they are by now; else the order was made and checked with
    them a moment ago.

    An attempt that cannot be started ends at once, with the reason.
    """
    by = requester() if by is None and row == ASKED else by or ""
    again = partial(begin, core, run, order, checkpoint=checkpoint, changes=changes, terms=terms, by=by, waited=True)
    if must_wait(core, run, order, again):
        return
    try:
        order = core.variables.completed(run, order) if waited else order
        order, placement = with_placement(core, run, as_set(core, run, order))
    except LackingVariablesError as error:
        if run.attempt == 0:
            _wait_for_variables(core, run, order)
            run.enqueue(order, again)
        else:
            abandon(core, run, Failed(kind="start", cause=f"lacks {error}", checkpoint=checkpoint))
        return
    except MissionError as error:
        abandon(core, run, Failed(kind="start", cause=str(error), checkpoint=checkpoint))
        return
    run.take_on(order)
    core.variables.remember(order)
    try:
        starting = partial(
            AttemptStarting,
            attempt=order.attempt,
            checkpoint=checkpoint,
            changes=(*changes, *limits_lacking(order.limits)),
            total_timesteps=None if run.spec is None else run.spec.run.total_timesteps,
            terms=terms,
            restart=row.restarts,
            reboots=row.reboots,
            placed=placement,
            after=ends_of_others(core, core.store.run(run.id).journal.after) if order.attempt == 1 else (),
            asker=by,
        )
        core.record_request(run, starting)
        _close_findings(core, run)
        core.submit(run, order)
    except MissionError as error:
        abandon(core, run, Failed(kind="start", cause=str(error), checkpoint=checkpoint))
        return
    caller = Caller.of(order)
    if run.spec is not None:
        caller = with_script_python(run.spec, caller, order.attempt)
    core.provenance.record(run.dir, run.attempt, caller, () if run.spec is None else sources_of(run.spec))
    _watch(core, run)


def first_turn(core: Core, run: LiveRun, order: LaunchOrder) -> Callable[[], None]:
    """What begins the first attempt of a run that waits on disk with its written `order`. Raises `DamagedError`."""
    checkpoint = order.argv[-1] if order.argv[-2:-1] == ("--checkpoint",) else None
    terms = read_terms(run.dir.attempt(order.attempt).terms)
    return partial(begin, core, run, order, checkpoint=checkpoint, terms=terms, waited=True)


def _close_findings(runs: Runs, run: LiveRun) -> None:
    """An attempt is a declared break: what was open before it is over, as of its last row."""
    known = runs.store.run(run.id)
    row = known.metrics.row
    for finding in list(known.journal.findings.values()):
        if finding.state == "open":
            over = cleared(finding, *((row.update, row.t) if row is not None else (0, 0.0)))
            runs.record_observed(run, partial(FindingChanged, finding=over))


def watch_or_finish(core: Core, run: LiveRun) -> None:
    """Find the living process of the attempt and watch it; end the run when there is none."""
    before, seen = run.job_status, run.poll()
    core.apply(run.id, FlagSeen("unverifiable", raised=False))
    if seen.can_be_ended and not before.can_be_ended:
        # What was asked while there was nobody to tell it.
        resume_ending(core, run)
    if seen.stage == "queued" or before.stage == "queued":
        core.apply(run.id, WaitSeen(seen.why if seen.stage == "queued" else ""))
    if seen.node:
        core.apply(run.id, NodeSeen(seen.node))
    if seen.stage in ("queued", "starting", "running"):
        _in_sight(core, run)
        _watch(core, run)
        return
    # Only now: a keeper writes its exit record before it exits, so without a keeper it is there or never will be.
    ended = _exit_record(core, run)
    if ended is not None and still_follows(core, run):
        return
    if ended is not None:
        # A keeper that could start nothing never had the lease; who survived SIGKILL still has it.
        if ended.start_error is not None or ended.left or not _out_of_sight(core, run):
            finish(core, run, ended, seen)
    elif seen.stage == "keeperless":
        _in_sight(core, run)
        if not seen.unsure:
            _keeperless(core, run)
        _watch(core, run)
    elif seen.stage == "unverifiable":
        core.apply(run.id, FlagSeen("unverifiable", raised=True))
    elif (seen.stage == "unseen" and run.launcher.is_coming(run.job)) or _out_of_sight(core, run):
        return
    elif seen.stage == "gone" or not _begin_after_all(core, run):
        finish(core, run, None, seen)


def show_pids(runs: Runs, run: LiveRun) -> None:
    """Note the processes of the attempt as they are now."""
    pids = run.poll().pids if run.job_status.lives else run.job_status.pids
    workers = run.workers or descendants(pids.trainer) if pids.trainer is not None else ()
    runs.apply_quietly(run.id, PidsSeen(Pids(pids.keeper, pids.trainer, workers)))


def _watch(core: Core, run: LiveRun) -> None:
    def gone() -> None:
        if core.live.get(run.id) is run:
            watch_or_finish(core, run)

    run.launcher.watch(run.job, gone)
    show_pids(core, run)


def _out_of_sight(core: Core, run: LiveRun) -> bool:
    """Whether something holds the run although no process of the attempt is known; said once, and looked for once."""
    if run.launcher.is_free(run.dir):
        _in_sight(core, run)
        return False
    if run.unseen:
        return True
    occupant = run.launcher.occupant(run.job)
    run.out_of_sight(occupant.why, outlived=occupant.leftover)
    log.warning("%s: %s", run.id, run.unseen)
    core.apply(run.id, FlagSeen("outlived" if run.outlived else "out-of-sight", raised=True))
    core.apply(run.id, WaitSeen(run.unseen))
    core.apply_quietly(run.id, PidsSeen(Pids()))
    if run.outlived and core.store.run(run.id).journal.asked & ENDING:
        sweep(core, run, run.attempt)
    core.orphaned |= run.outlived
    return True


def _in_sight(runs: Runs, run: LiveRun) -> None:
    """What held the run unseen is known now, or gone."""
    if run.unseen:
        runs.apply(run.id, FlagSeen("outlived" if run.outlived else "out-of-sight", raised=False))
        runs.apply(run.id, WaitSeen(""))
        run.in_sight()


def _keeperless(runs: Runs, run: LiveRun) -> None:
    if "keeperless" not in runs.store.run(run.id).journal.flags:
        runs.record_observed(run, lambda seq, t: KeeperLost(seq, t, run.attempt))
        resume_ending(runs, run)


def _begin_after_all(core: Core, run: LiveRun) -> bool:
    """Have an order carried out that a supervisor wrote and died before it could; once, and not against a stop."""
    order = run.unbegun
    if order is None or core.store.run(run.id).journal.asked & ENDING:
        return False
    try:
        order = core.variables.completed(run, order)
        core.submit(run, order)
    except LackingVariablesError:
        _wait_for_variables(core, run, order)
        return True
    except MissionError as error:
        abandon(core, run, Failed(kind="start", cause=str(error)))
        return True
    core.apply(run.id, WaitSeen(""))
    core.variables.remember(order)
    log.warning("%s: nobody carried out attempt %d; it is started now", run.id, run.attempt)
    _watch(core, run)
    return True


def _wait_for_variables(core: Core, run: LiveRun, order: LaunchOrder) -> None:
    core.variables.lacking[run.id] = order
    core.apply(run.id, WaitSeen(core.variables.why_it_waits(run.id)))


def _exit_record(runs: Runs, run: LiveRun) -> ExitRecord | None:
    try:
        return read_exit(run.dir.attempt(run.attempt).exit)
    except (DamagedError, OSError) as error:
        runs.record_observed(run, damaged("exit.json", str(error)))
        return None


LONGEST_WAIT_S = 100.0
"""Before a client would give up on an answer."""


async def ask_checkpoints(core: Core, runs: Iterable[LiveRun], wait_s: float) -> tuple[CheckpointOutcome, ...]:
    """Ask each of `runs` for a checkpoint, and wait for what comes of it, `LONGEST_WAIT_S` at most; with a `wait_s` of
    0 nothing is waited for, and nothing is known yet.
    """
    asked: list[tuple[LiveRun, AskedCheckpoint]] = []
    for run in runs:
        event = core.record_verb(run, "checkpoint")
        if wait_s > 0:
            asked.append((run, run.ask_checkpoint(event.seq, event.t)))
        run.send(Order("checkpoint", number=event.seq))
    wait_s = min(wait_s, LONGEST_WAIT_S)
    return tuple(await asyncio.gather(*(_outcome(core, run, order, wait_s) for run, order in asked)))


async def _outcome(runs: Runs, run: LiveRun, order: AskedCheckpoint, wait_s: float) -> CheckpointOutcome:
    """What comes of `order` within `wait_s`, or before the run ends."""
    gone = asyncio.create_task(run.gone.wait())
    waits: set[asyncio.Future[object]] = {gone, order.answer}  # type: ignore[arg-type]
    try:
        await asyncio.wait(waits, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        run.stop_waiting_for(order)
    answer: CheckpointAnswered | None = order.answer.result() if order.answer.done() else None
    if answer is None:
        newest = runs.store.view(run.id).last_checkpoint if run.id in runs.store else None
        left = f"; its newest checkpoint is {newest}" if newest else "; it has no checkpoint"
        over = "it ended before one was written" if run.gone.is_set() else f"none was written within {wait_s:g} s"
        later = "" if run.gone.is_set() else ": its next update boundary has not come, and it saves there"
        return CheckpointOutcome(run.id, None, f"{over}{later}{left}")
    return CheckpointOutcome(run.id, answer.checkpoint, answer.why)
