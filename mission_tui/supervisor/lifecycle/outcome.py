"""How an attempt ends here: its last lines are read, the cause is named and journaled, what is held is let go. And
whether its run restarts by its own rules, when the attempt has failed (a retry) or a reboot took it.

The journal holds when a restart is due, so whichever supervisor lives then does it; ending the run meanwhile takes it
back.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Sequence
from functools import partial
from typing import assert_never

from msgspec import structs

from mission_tui.fleet.capacity.demand import KEEPER_BYTES
from mission_tui.fleet.events.journal import (
    ENDING,
    Asked,
    AttemptEnded,
    FindingChanged,
    FleetEvent,
    RestartDue,
    ResumeChoices,
    RunParked,
    Verb,
)
from mission_tui.fleet.events.outcome import After, Failed, Finished, Killed, Lost, Outcome, Stopped
from mission_tui.fleet.events.processes import Peak
from mission_tui.fleet.health import acts, out_of_memory
from mission_tui.fleet.history.classify import CAUSE_CHARACTERS, classify, never_begun
from mission_tui.fleet.history.journal_state import JournalState
from mission_tui.fleet.history.restart_policy import (
    AT_LIMIT,
    REBOOTS,
    GiveUp,
    StartAgain,
    after_interruption,
    after_reboot,
    ended_by_reboot,
    next_step,
)
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.spec import Spec, goes_on_elsewhere
from mission_tui.fleet.text import clean
from mission_tui.procfs import boot_id
from mission_tui.records.runs.attempt import ExitRecord
from mission_tui.supervisor.ending.ladder import flag_unkillable, who_hangs
from mission_tui.supervisor.ending.leftovers import find_leftovers, remove_leftover
from mission_tui.supervisor.launchers import JobStatus
from mission_tui.supervisor.runs import clock_steps
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.run_on_disk import exit_facts
from mission_tui.supervisor.watching.finding_actions import notify_end
from mission_tui.supervisor.watching.metrics_feed import judge_silence, read_news


def decide_restart(runs: Runs, run_id: str) -> None:
    """Journal what follows an attempt that failed or was lost in a reboot.

    Nothing when nothing does, or when it was decided before.
    """
    run = runs.store.run(run_id)
    journal, spec = run.journal, run.spec
    if spec is None:
        return
    after, most, step = _next(run, journal, spec)
    match step:
        case StartAgain():
            runs.record_observed_of(run_id, partial(_due, journal.attempt, most, step, after))
        case GiveUp(why):
            runs.record_observed_of(run_id, lambda seq, t: RunParked(seq, t, journal.attempt, why))
        case None:
            return
        case _:
            assert_never(step)


def _next(run: RunHistory, journal: JournalState, spec: Spec) -> tuple[After, int, StartAgain | GiveUp | None]:
    if journal.interrupted and goes_on_elsewhere(spec):
        return (
            "interruption",
            REBOOTS,
            after_interruption(journal, advanced=_lived_s(run) > 0.0),
        )
    if journal.rebooted and spec.keep.on_reboot == "resume":
        return "reboot", REBOOTS, after_reboot(journal, _lived_s(run))
    return "failure", spec.keep.restart.most, next_step(journal, spec.keep.restart)


def resume_in_turn(runs: Runs, run_id: str, choices: ResumeChoices) -> None:
    """Journal that somebody asked for the run's next attempt, with `choices`, which begins when it is its turn. Raises
    `StorageError`.
    """
    attempt, now_s = runs.store.run(run_id).journal.attempt, round(clock_steps.boottime(), 3)
    runs.record_request_of(run_id, partial(Asked, verb="resume", attempt=attempt))
    runs.record_observed_of(
        run_id, lambda seq, t: RestartDue(seq, t, attempt, 0, 0, t, "request", boot_id(), now_s, choices)
    )


def due_restarts(runs: Runs, now: float) -> list[str]:
    """Runs whose restart is due at unix time `now`."""
    restarts = {run_id: runs.store.run(run_id).journal.restart for run_id in runs.store.live_ids()}
    return [run_id for run_id, restart in restarts.items() if restart is not None and _is_due(restart, now)]


def _is_due(restart: RestartDue, now: float) -> bool:
    """By the boot clock where it was decided on this boot, by the clock of the machine otherwise."""
    if restart.boot and restart.boot == boot_id():
        return clock_steps.boottime() >= restart.due_boot_s
    return restart.due_t <= now


def waiting_for_restart(runs: Runs, refs: Sequence[str]) -> tuple[str, ...]:
    """Of the runs that `refs` mean, those that wait for a restart. Raises `UsageError` for a ref that means none."""
    meant = dict.fromkeys(run_id for ref in refs for run_id in runs.store.resolve(ref))
    return tuple(run_id for run_id in meant if runs.store.run(run_id).journal.restart is not None)


def call_off_restarts(runs: Runs, waiting: Sequence[str], verb: Verb) -> None:
    """Journal that `verb` was asked of the runs, so that they wait no more. Raises `StorageError`."""
    for run_id in waiting:
        runs.record_request_of(run_id, partial(Asked, verb=verb, attempt=runs.store.run(run_id).journal.attempt))


def _lived_s(run: RunHistory) -> float:
    """How long the attempt trained, by its last row: how long the machine was off afterwards counts for nothing."""
    row = run.metrics.row
    if row is None or row.attempt != run.journal.attempt or run.journal.started_t is None:
        return 0.0
    return row.t - run.journal.started_t


def _due(attempt: int, most: int, step: StartAgain, after: After, seq: int, t: float) -> FleetEvent:
    due_boot_s = round(clock_steps.boottime() + step.wait_s, 3)
    return RestartDue(seq, t, attempt, step.number, most, t + step.wait_s, after, boot_id(), due_boot_s)


PROMPT_S = 5.0
"""An end that is noticed within this is written down as of when it was noticed."""

log = logging.getLogger(__name__)


def finish(core: Core, run: LiveRun, ended: ExitRecord | None, seen: JobStatus) -> None:
    """No process of the attempt lives: take in its last lines, name the cause, close the run."""
    read_news(core, run, last=True)
    if ended is not None:
        judge_silence(core, run, ended.ended_t)
    known = core.store.run(run.id)
    asked = set(known.journal.asked)
    checkpoint = known.metrics.checkpoint
    outcome: Outcome
    if ended is None and not seen.begun and run.end is None:
        outcome = never_begun(asked, checkpoint, clean(seen.why, CAUSE_CHARACTERS) if seen.cancelled else "")
    else:
        by_exit = run.spec is not None and run.spec.run.command is not None
        full = f"the disk of {core.root} is full: free some space there" if core.reserve.needed else ""
        facts, stopped = exit_facts(ended, full), known.journal.asked_or_stopped
        outcome = classify(run.end, facts, stopped, checkpoint, rebooted=seen.rebooted, by_exit=by_exit)
    if seen.why and (isinstance(outcome, Lost) or (isinstance(outcome, Failed) and ended is None)):
        outcome = structs.replace(outcome, cause=clean(seen.why, CAUSE_CHARACTERS))
    if isinstance(outcome, (Killed, Stopped)) and seen.unsure:
        outcome = structs.replace(outcome, cause=clean(f"{outcome.cause}; {seen.why}", CAUSE_CHARACTERS))
    by = known.journal.stopped_by
    rebooted = seen.rebooted and by is None and not asked & ENDING and _went_down(outcome, ended)
    if isinstance(outcome, Stopped) and by is not None:
        outcome = structs.replace(outcome, cause=f"stopped because of {by.id}: {by.sentence}")
    elif isinstance(outcome, Stopped) and asked & ENDING == {"park"}:
        saved = "saved and ended" if run.end is None or not run.end.unsaved else "ended"
        outcome = structs.replace(outcome, cause=f"{saved} on request; its memory is free")
    elif isinstance(outcome, Stopped) and rebooted:
        outcome = structs.replace(outcome, cause="ended when the machine was shut down")
    elif isinstance(outcome, Stopped) and seen.why and not asked & ENDING and not _at_limit(ended):
        outcome = structs.replace(outcome, cause=clean(seen.why, CAUSE_CHARACTERS))
    if run.end is not None and run.end.unsaved:
        outcome = structs.replace(outcome, cause=clean(f"{outcome.cause}; {run.end.unsaved}", CAUSE_CHARACTERS))
    here = run.launcher.can.here
    core.orphaned |= here and ended is None
    if ended is None and not here:
        core.fence_off(run)
    if ended is not None and here and (hanging := who_hangs(ended)):
        outcome = structs.replace(outcome, cause=f"{outcome.cause}; even SIGKILL does not end {hanging}")
        flag_unkillable(core, run.id, ended)
    attempt, peak = run.attempt, _peak(core, run, ended)
    interrupted = "" if by is not None or asked & ENDING else _interrupted(outcome, ended, seen)
    _find_out_of_memory(core, run, outcome, ended)
    ended_t = None if ended is None else ended.ended_t
    abandon(core, run, outcome, rebooted=rebooted, peak=peak, interrupted=interrupted, ended_t=ended_t)
    if ended is None and here and asked & ENDING:
        sweep(core, run, attempt)


def _find_out_of_memory(core: Core, run: LiveRun, outcome: Outcome, ended: ExitRecord | None) -> None:
    """Where the attempt ended for want of memory, journal which settings would need less."""
    if run.spec is None or acts(run.spec.keep.health, out_of_memory.ID) == "off":
        return
    row, t = core.store.run(run.id).metrics.row, time.time() if ended is None else ended.ended_t
    found = out_of_memory.out_of_memory(
        run.spec,
        outcome,
        exit_facts(ended),
        attempt=run.attempt,
        update=0 if row is None else row.update,
        t=t,
        held_bytes=run.peak_rss_bytes,
        settled=run.settled,
    )
    if found is not None:
        core.record_observed(run, lambda seq, at: FindingChanged(seq, at, found))


def _peak(runs: Runs, run: LiveRun, ended: ExitRecord | None) -> Peak | None:
    """What the attempt held at most; None when it did no update, and so may not have needed what it needs.

    It was looked at now and then; of the largest process the kernel kept count.
    """
    row = runs.store.run(run.id).metrics.row
    if row is None or row.attempt != run.attempt:
        return None
    largest = ended.peak_rss_bytes if ended is not None else None
    rss = max(run.peak_rss_bytes, 0 if largest is None else largest + KEEPER_BYTES)
    return Peak(rss, run.peak_vram_bytes) if rss else None


def _interrupted(outcome: Outcome, ended: ExitRecord | None, seen: JobStatus) -> str:
    """Why its engine ended an attempt that would have gone on; empty where it ended by itself."""
    if isinstance(outcome, Finished) or (isinstance(outcome, Failed) and ended is not None):
        return ""
    return AT_LIMIT if _at_limit(ended) else seen.interrupted


def _at_limit(ended: ExitRecord | None) -> bool:
    """Whether it saved and ended because the time limit of its job was near: of that job Slurm says FAILED."""
    return ended is not None and ended.asked == "limit"


def _went_down(outcome: Outcome, ended: ExitRecord | None) -> bool:
    """Whether the machine's going down ended an attempt of an earlier boot."""
    terminated = ended is not None and (ended.asked == "term" or ended.signal == signal.SIGTERM)
    return ended_by_reboot(outcome, seen=ended is not None, terminated=terminated)


def abandon(
    core: Core,
    run: LiveRun,
    outcome: Outcome,
    *,
    rebooted: bool = False,
    peak: Peak | None = None,
    interrupted: str = "",
    ended_t: float | None = None,
) -> None:
    """End the run here with `outcome`: journal it and let everything go that is held for it. `ended_t` is when its
    keeper saw it end.
    """
    log.info("%s: attempt %d ended: %s", run.id, run.attempt, outcome.cause)
    began_t = core.store.run(run.id).journal.started_t or 0.0

    def over_at(seq: int, t: float) -> AttemptEnded:
        # A clock that was set meanwhile may have it end before it began, or after now.
        late = ended_t is not None and began_t <= ended_t < t - PROMPT_S
        return AttemptEnded(seq, t, run.attempt, outcome, rebooted, peak, interrupted, ended_t if late else None)

    over = core.record_observed(run, over_at)
    if peak is not None and run.spec is not None:
        core.machine.peaks.add(run.spec, peak, over.t)
    decide_restart(core, run.id)
    del core.live[run.id]
    if run.journal.holding:
        core.unwritten[run.id] = run.journal
    run.release()
    run.gone.set()
    notify_end(core, run)


def sweep(core: Core, run: LiveRun, attempt: int) -> None:
    """What a keeper would have done: end what the trainer of a stopped or killed keeperless run left behind."""
    for leftover in find_leftovers(core.root, core.must_be_kept):
        ours = (leftover.run, leftover.attempt, leftover.verdict) == (run.id, attempt, "ours")
        if ours and remove_leftover(leftover):
            core.fleet.leftover_removed(run.id, f"process {leftover.pid}: {leftover.command}")
