"""The time that this process lived through: monotonic seconds without those for which SIGSTOP held it; and what a run
may spend of it, or of environment steps, to within one update.

The kernel does not tell how long a process was stopped. So a thread looks at the clock four times a second: a gap that
ends with a SIGCONT was a stop, one without is a busy machine and counts. SIGCONT is blocked and only looked at, which
keeps it from interrupting anything; it lets a process go on all the same.
"""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import dataclass

from mission_tui.fleet.specs.spec import RunSpec

TICK_S = 0.25
LATE_S = 2 * TICK_S
PATIENCE_S = 2.0
"""How long to wait for the thread's turn; only C code that keeps the interpreter to itself can hold it up."""


class _RunningTime:
    """`stopped_s` so far; `ticked_s` when the thread last looked; `alive_s` when anybody last looked."""

    def __init__(self) -> None:
        self.turn = threading.Condition()
        self.stopped_s = 0.0
        self.ticked_s = self.alive_s = time.monotonic()
        self.noticing = False

    def seconds(self) -> float:
        now_s = time.monotonic()
        if not self.noticing:
            return now_s
        with self.turn:
            if now_s - self.ticked_s > LATE_S:
                # Just continued, perhaps: the thread must tell before this look hides the gap.
                self.turn.wait_for(lambda: self.ticked_s >= now_s, PATIENCE_S)
            self.alive_s = max(self.alive_s, now_s)
            return now_s - self.stopped_s

    def tick(self) -> None:
        continued = signal.SIGCONT in signal.sigpending()
        if continued:
            signal.sigtimedwait((signal.SIGCONT,), 0)
        with self.turn:
            now_s = time.monotonic()
            if continued and now_s - self.ticked_s > LATE_S:
                self.stopped_s += now_s - self.alive_s
            self.ticked_s = self.alive_s = now_s
            self.turn.notify_all()

    def run(self) -> None:
        while True:
            time.sleep(TICK_S)
            self.tick()


_awake = _RunningTime()


def unstopped_s() -> float:
    """Monotonic seconds that leave out stops of more than half a second, each to within a quarter of a second.

    Without `notice_stops` those of `time.monotonic`.
    """
    return _awake.seconds()


def notice_stops() -> None:
    """Leave out stops from now on. Once a process, before other threads start: they must not take SIGCONT away."""
    if _awake.noticing:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCONT,))
    _awake.ticked_s = _awake.alive_s = time.monotonic()
    _awake.noticing = True
    threading.Thread(target=_awake.run, name="awake", daemon=True).start()


@dataclass(frozen=True, slots=True)
class Budget:
    """Exactly one of the first two is set; both count all attempts of the run together.

    An attempt with a `limit` ends there at the latest; its schedules follow the whole budget all the same.
    """

    total_timesteps: int | None
    duration_s: float | None
    limit: int = 0

    @classmethod
    def of(cls, run: RunSpec, limit: int = 0) -> Budget:
        """The budget that `[run]` gives."""
        return cls(run.total_timesteps, run.duration_s, limit)

    def at_limit(self, timesteps: int) -> bool:
        """Whether the attempt has come to the end that was set for it alone."""
        return 0 < self.limit <= timesteps

    def spent(self, timesteps: int, trained_s: float) -> bool:
        """Whether no further update may begin."""
        if self.at_limit(timesteps):
            return True
        if self.total_timesteps is not None:
            return timesteps >= self.total_timesteps
        return self.duration_s is not None and trained_s >= self.duration_s

    def progress_remaining(self, timesteps: int, trained_s: float) -> float:
        """What SB3's schedules take: 1 at the start, 0 at the end (slightly below for the update that overshoots)."""
        if self.total_timesteps is not None:
            return 1.0 - float(timesteps) / float(self.total_timesteps)
        return 1.0 if self.duration_s is None else max(0.0, 1.0 - trained_s / self.duration_s)


class Stopwatch:
    """Seconds spent training; neither pauses count nor the time that the process stood frozen."""

    def __init__(self, already_s: float = 0.0) -> None:
        self._before_s = already_s
        self._since: float | None = unstopped_s()

    @property
    def seconds(self) -> float:
        running_s = 0.0 if self._since is None else unstopped_s() - self._since
        return self._before_s + running_s

    def pause(self) -> None:
        """Stop counting."""
        self._before_s, self._since = self.seconds, None

    def go_on(self) -> None:
        """Count again."""
        self._since = unstopped_s()
