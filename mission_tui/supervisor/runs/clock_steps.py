"""The clocks: seconds since the machine came up, and how far unix time is ahead of the monotonic clock. And steps of
the machine's own clock, which somebody sets now and then, by hours where it was wrong: they are noticed by the boot
clock, and journaled. So is the sleep of a machine, which the boot clock counts and the monotonic clock does not.

The boot clock counts sleep too and nobody can set it: durations are measured by it. Cells are kept on the monotonic
clock.

Rows and events name moments by the machine's clock. Where it was set between two of them, the event says by how much,
so that neither this supervisor nor a later one, nor a replay from files, takes the step for time that passed.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from mission_tui.errors import DamagedError
from mission_tui.fleet.events.journal import ClockStepped, FleetEvent, RunFrozen, RunThawed
from mission_tui.procfs import boot_id
from mission_tui.records.runs.attempt import read_identity
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host.identity import verify

if TYPE_CHECKING:
    from mission_tui.fleet.history.journal_state import JournalState
    from mission_tui.supervisor.runs.registry import Runs


STEP_S = 1.5
"""Less than this is a clock that is kept, not one that is set; no duration here is that exact."""

SLEPT_S = 5.0
"""A process that is held up between its looks at two clocks has not slept, and a silence of so long is none."""

MISSED_S = 60.0
"""Over the days of an attempt a clock that is kept may be moved by seconds without ever being set."""

log = logging.getLogger(__name__)


class ClockSteps:
    """Looked at before anything is judged by the clock, so cheap: two clocks are read."""

    def __init__(self) -> None:
        self._ahead_s, self._slept_s = _ahead_s(), _slept_s()

    def poll(self, runs: Runs) -> None:
        """Journal for every run that lives, or waits for its restart, by how much the clock was set since last time;
        and for those that live here that they stood still with the machine.
        """
        before_s, self._slept_s = self._slept_s, _slept_s()
        if (slept_s := self._slept_s - before_s) > SLEPT_S:
            _journal_sleep(runs, slept_s)
        before, self._ahead_s = self._ahead_s, _ahead_s()
        by_s = self._ahead_s - before
        if abs(by_s) < STEP_S:
            return
        log.warning("the machine's clock was set %.1f s %s", abs(by_s), "forward" if by_s > 0 else "back")
        for run_id in runs.store.live_ids():
            if attempt := runs.store.run(run_id).journal.attempt:
                runs.record_observed_of(run_id, partial(ClockStepped, attempt=attempt, by_s=round(by_s, 3)))


def _journal_sleep(runs: Runs, slept_s: float) -> None:
    log.warning("the machine slept for %.0f s", slept_s)
    now = time.time()
    for run in list(runs.live.values()):
        journal = runs.store.run(run.id).journal
        if run.attempt and run.launcher.can.here and journal.frozen is None and not journal.paused:
            runs.record_observed(run, partial(_fell_asleep, run.attempt, now - slept_s))
            runs.record_observed(run, partial(_woke, run.attempt, now))


def _fell_asleep(attempt: int, at: float, seq: int, _: float) -> FleetEvent:
    return RunFrozen(seq, at, attempt, "outside", why="the machine was suspended")


def _woke(attempt: int, at: float, seq: int, _: float) -> FleetEvent:
    return RunThawed(seq, at, attempt, "outside")


def missed_step(run: RunDir, journal: JournalState) -> float | None:
    """By how much the clock was set since the attempt began, or its restart was decided, while no supervisor lived."""
    restart = journal.restart
    if restart is not None and restart.boot == boot_id():
        by_s = time.time() + restart.due_boot_s - boottime() - restart.due_t
        return by_s if abs(by_s) > STEP_S else None
    if journal.outcome is not None or not journal.attempt:
        return None
    with suppress(DamagedError, OSError):
        identity = read_identity(run.attempt(journal.attempt).identity)
        if identity is None or verify(identity.trainer, identity.boot_id).process is None:
            return None
        by_s = _ahead_s() + began_at(identity.trainer.start_time) - identity.started_t - journal.stepped_s
        return by_s if abs(by_s) > MISSED_S else None
    return None


def _ahead_s() -> float:
    return time.time() - boottime()


def _slept_s() -> float:
    return boottime() - time.monotonic()


TRIES = 3


def unix_ahead() -> float:
    """Seconds to add to a monotonic time. Of a few tries the least interrupted one counts."""
    tries = []
    for _ in range(TRIES):
        before, unix, after = time.monotonic(), time.time(), time.monotonic()
        tries.append((after - before, unix - (before + after) / 2))
    return min(tries)[1]


def boottime() -> float:
    """Now, in seconds since the machine came up."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def began_at(start_time: int) -> float:
    """When a process began, by field 22 of its stat."""
    return start_time / os.sysconf("SC_CLK_TCK")
