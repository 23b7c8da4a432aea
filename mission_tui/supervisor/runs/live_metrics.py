"""The metrics of a live run: which of its rows wait for its judge, and the follower that writes those of a command.

`mission_tui/supervisor/watching/metrics_feed.py` judges and follows by them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from mission_tui.errors import EX_RESUMABLE
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import Break
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.fleet.health import HealthJudge, judge_of
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.spec import Spec
from mission_tui.plain_files import open_to_append
from mission_tui.records.runs.layout import RunDir
from mission_tui.run_module import module_words
from mission_tui.supervisor.host.children import Child, start_child

LAST_LINES_S = 5.0
"""How long the end of an attempt waits for the last lines of its logs."""

_LATE_READS = 3
"""What a writer flushes at once may be found in two looks."""

_MOST_LATE_S = 600.0
"""No writer keeps rows longer: what is older when it is read was written while nobody looked."""

log = logging.getLogger(__name__)


class RunJudging(Struct, eq=False):
    """When rows of a run came, those of them that are not judged yet, and what its judge was told."""

    judge: HealthJudge | None = None
    """None where nothing is to be judged."""
    unjudged: deque[MetricRecord] = field(default_factory=deque)
    breaks_reported: int = 0
    """How many breaks were reported to the judge."""
    catching_up: asyncio.TimerHandle | None = None
    """Judges what is left, after a moment for others."""
    news_at: float = 0.0
    """When (monotonic) new lines were last found in its file."""
    _late: deque[float] = field(default_factory=lambda: deque(maxlen=_LATE_READS))

    def begin(self, spec: Spec | None) -> None:
        """Judge an attempt from its first row, by its own `spec`; None for one that is not to be judged."""
        judge = None if spec is None else judge_of(spec)
        self.judge = judge if judge is not None and judge.has_rules else None
        self.breaks_reported = 0
        self.unjudged.clear()

    def take_rows(self, now: float, late_s: float) -> None:
        """New lines were found in its file at monotonic `now`, the first of them written `late_s` after its moment."""
        self.news_at = now
        self._late.append(min(late_s, _MOST_LATE_S))

    @property
    def late_s(self) -> float:
        """How late rows came lately."""
        return max(self._late, default=0.0)

    def add(self, record: MetricRecord) -> None:
        """A line of the attempt is to be judged."""
        if self.judge is not None:
            self.unjudged.append(record)

    def report_breaks(self, breaks: Sequence[tuple[float, Break]], changes: tuple[Change, ...]) -> None:
        """Tell the judge of those `breaks` that are new: all of the attempt are given each time, and with what
        `changes` it was resumed.
        """
        if self.judge is not None:
            self.judge.resumed_with(changes)
            for t, cause in breaks[self.breaks_reported :]:
                self.judge.broken(t, cause)
            self.breaks_reported = len(breaks)

    def judge_next(self) -> list[Finding]:
        """What the judge finds in the oldest line that was not judged yet."""
        record = self.unjudged.popleft()
        return [] if self.judge is None else self.judge.feed(record)

    def go_on_later(self, wait_s: float, step: Callable[[], None]) -> None:
        """`step` judges what is left, after a moment for others."""
        self.catching_up = asyncio.get_running_loop().call_later(wait_s, step)

    def cancel_later(self) -> None:
        """What was to judge later is not needed any more."""
        if self.catching_up is not None:
            self.catching_up.cancel()
            self.catching_up = None


class LogFollower(Struct, eq=False):
    """Reads for a command what it reports, or its logs: one process for an attempt, which outlives this one.

    One that an earlier supervisor started goes on: a second one leaves as soon as it sees that.
    """

    until: float = 0.0
    """How long (monotonic) it may take to read the last lines; 0 while none was wanted."""
    elsewhere: bool = False
    """A follower that an earlier supervisor started does that."""
    _process: Child | None = None

    def begin_anew(self) -> None:
        """Another one is wanted: the attempt is a new one, or what follows it elsewhere may leave at any time."""
        self.until, self.elsewhere = 0.0, False

    def start(self, run: RunDir, attempt: int, pattern: str | None, failed: Callable[[str], None]) -> None:
        """Follow the attempt: its logs that match `pattern`, or what it reports. `failed` hears why that goes wrong."""
        # Before there is a process, so that a failure is not repeated.
        self.until = float("inf")
        argv = [*module_words("mission_tui.trainer.follow"), str(run.path), str(attempt)]
        argv += [pattern] if pattern is not None else []

        def left(code: int) -> None:
            self._process, self.elsewhere = None, code == EX_RESUMABLE
            if code not in (0, EX_RESUMABLE):
                log.warning("%s: it is not followed any more: exit code %d", run.id, code)
                how = f"exit code {code}" if code >= 0 else f"signal {-code}"
                failed(f"its follower ended with {how}, and later rows are not seen; its output says why")

        try:
            # What it cannot read is said where the command's own words are.
            words = open_to_append(run.attempt(attempt).output)
            try:
                self._process = start_child(argv, left, cwd="/", stderr=words, detached=True)
            finally:
                os.close(words)
            os.setpriority(os.PRIO_PROCESS, self._process.pid, 10)
        except OSError as error:
            log.warning("%s: it cannot be followed: %s", run.id, error)
            failed(f"its rows are not read: {error}")

    def still_reads(self) -> bool:
        """Whether the last lines are still being read; false after a few seconds at most."""
        if self._process is None:
            return False
        self.until = min(self.until, time.monotonic() + LAST_LINES_S)
        return time.monotonic() < self.until
