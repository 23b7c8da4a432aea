"""Whether a run restarts by its own rules, when an attempt has failed (a retry) or a reboot took it; and which restarts
are due.

The journal holds when that is, so whichever supervisor lives then does it; ending the run meanwhile takes it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import assert_never

from mission_tui.fleet.events.journal import (
    Asked,
    FleetEvent,
    RestartDue,
    ResumeChoices,
    RunParked,
    Verb,
)
from mission_tui.fleet.events.outcome import After
from mission_tui.fleet.history.journal_state import JournalState
from mission_tui.fleet.history.restart_policy import (
    REBOOTS,
    GiveUp,
    StartAgain,
    after_interruption,
    after_reboot,
    next_step,
)
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.spec import Spec, goes_on_elsewhere
from mission_tui.procfs import boot_id
from mission_tui.supervisor.runs import clock_steps
from mission_tui.supervisor.runs.registry import Runs


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
    runs.record_request_of(run_id, partial(_asked, "resume", attempt))
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
        runs.record_request_of(run_id, partial(_asked, verb, runs.store.run(run_id).journal.attempt))


def _lived_s(run: RunHistory) -> float:
    """How long the attempt trained, by its last row: how long the machine was off afterwards counts for nothing."""
    row = run.metrics.row
    if row is None or row.attempt != run.journal.attempt or run.journal.started_t is None:
        return 0.0
    return row.t - run.journal.started_t


def _due(attempt: int, most: int, step: StartAgain, after: After, seq: int, t: float) -> FleetEvent:
    due_boot_s = round(clock_steps.boottime() + step.wait_s, 3)
    return RestartDue(seq, t, attempt, step.number, most, t + step.wait_s, after, boot_id(), due_boot_s)


def _asked(verb: Verb, attempt: int, seq: int, t: float) -> FleetEvent:
    return Asked(seq, t, verb, attempt)
