"""`hang`: a trainer that lives and says nothing. Judged by the clock, since silence has no rows.

What is normal is learned from the run's own updates; time that a person paused does not count. The same gap between two
rows is found again when the files are judged later.
"""

from __future__ import annotations

import statistics
from collections import deque

from mission_tui.fleet.findings import Severity
from mission_tui.fleet.health.rule import Break, Explanation, Patient, Row, Rule
from mission_tui.fleet.health.words import rounded
from mission_tui.fleet.metrics import Metric

__all__ = ["Hang"]

UPDATES = 50
FEWEST = 3
FIRST_S = 900.0
"""Silence that is allowed before three updates have shown what is normal: large first rollouts on a busy machine."""


class Hang(Rule):
    """One attempt's rule."""

    id = "hang"

    def __init__(self, patient: Patient) -> None:
        super().__init__(patient)
        self._seconds: deque[float] = deque(maxlen=UPDATES)
        self._last_t: float | None = None
        self._pause_t: float | None = None
        self._paused_s = 0.0
        self._last: Row | None = None
        self._silent_s = 0.0

    def began(self, t: float) -> None:
        """The attempt began to learn at unix time `t`."""
        if t > 0.0:
            self._last_t = t

    def paused(self, t: float, cause: Break) -> None:
        """A person paused or went on at unix time `t`."""
        if cause == "pause" and self._pause_t is None:
            self._pause_t = t
        elif cause == "unpause" and self._pause_t is not None:
            if self._last_t is not None:
                self._paused_s += max(0.0, t - max(self._pause_t, self._last_t))
            self._pause_t = None

    def over(self) -> None:
        """The attempt has ended: silence is its right."""
        self._last_t = None

    def judge(self, row: Row) -> Severity | None:
        """A row ends any silence."""
        if row.t > 0.0:
            self._seconds.append(max(0.0, row.rollout_s + row.update_s))
            self._last_t, self._paused_s, self._last = row.t, 0.0, row
        return None

    def silent(self, now: float) -> Severity | None:
        """Critical when nothing has come until unix time `now` for longer than this run's limit."""
        if self._last_t is None or self._pause_t is not None:
            return None
        self._silent_s = now - self._last_t - self._paused_s
        return "critical" if self._silent_s > self.limit_s else None

    def since(self, now: float) -> float:
        """Unix time at which the limit was passed."""
        return now if self._last_t is None else self._last_t + self._paused_s + self.limit_s

    @property
    def limit_s(self) -> float:
        """Seconds of silence that are allowed: the longer of ten median updates and two minutes."""
        if len(self._seconds) < FEWEST:
            return FIRST_S
        limits = self.patient.limits.hang
        return max(limits.times_median * statistics.median(self._seconds), limits.least_s)

    def explain(self, severity: Severity) -> Explanation:
        """Compares the silence with the run's own updates."""
        usual = statistics.median(self._seconds) if len(self._seconds) >= FEWEST else None
        known = f"its updates take {rounded(usual)} s" if usual is not None else "it has not finished three updates"
        evidence: dict[str, Metric] = self._last.evidence() if self._last else {}
        return Explanation(
            sentence=f"no update for {rounded(self.limit_s)} s while the trainer lives; {known}",
            cause="an environment that blocks, a dead env worker, or a machine that swaps or has no core left for it",
            advice="look at the log and the machine; stop, and resume from the last checkpoint",
            evidence=({**evidence, "limit_s": round(self.limit_s, 1)},),
            signal="steps_per_s",
        )
