"""`checkpoint-age`: what a crash would cost. The newest verified checkpoint is old, or the trainer could not save one.

A checkpoint is verified when it is saved. Its age is counted in seconds of training since, so a pause is no age and a
clock that steps is none; an update longer than the interval is allowed for, since nothing is saved within one.
"""

from __future__ import annotations

from mission_tui.fleet.events.findings import CHECKPOINT, Severity
from mission_tui.fleet.events.metrics import DutyFailed
from mission_tui.fleet.health.phrases import rounded
from mission_tui.fleet.health.rule import Explanation, Row, Rule, RuleContext
from mission_tui.fleet.text import clean

CRITICAL_FAILURES = 3


class CheckpointAge(Rule):
    """One attempt's rule; it goes on across settings that are changed."""

    id = "checkpoint-age"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._age_s = 0.0
        self._longest_s = 0.0
        self._updates = 0
        self._failures = 0
        self._why = ""
        self._last: Row | None = None
        self._told = False
        """Whether this attempt's records speak of checkpoints at all; those of logs and of other trainers do not."""

    def goes_on_from(self, before: CheckpointAge) -> None:
        """Other settings are in effect: what is not saved is as old as it was."""
        self._age_s, self._longest_s, self._updates = before._age_s, before._longest_s, before._updates
        self._failures, self._why, self._last = before._failures, before._why, before._last
        self._told = before._told

    def saved(self) -> None:
        """A checkpoint was saved, and read back."""
        self._age_s = self._longest_s = 0.0
        self._updates = self._failures = 0
        self._why, self._told = "", True

    def failed(self, record: DutyFailed) -> bool:
        """The trainer could not do something; whether that was a checkpoint."""
        if record.duty != CHECKPOINT or record.over:
            return False
        self._failures += 1
        self._why, self._told = clean(record.why, 300), True
        return True

    def judge(self, row: Row) -> Severity | None:
        """How old what a crash would leave is as of `row`."""
        seconds = max(0.0, row.rollout_s + row.update_s)
        self._age_s += seconds
        self._longest_s = max(self._longest_s, seconds)
        self._updates += 1
        self._last = row
        return self.severity

    @property
    def severity(self) -> Severity | None:
        """How bad it is now."""
        limits, interval_s = self.context.limits.checkpoint_age, self.context.settings.checkpoint_every_s
        spare_s = self._age_s - self._longest_s
        if not self._told:
            return None
        if interval_s is not None and spare_s > limits.critical_times * interval_s:
            return "critical"
        if self._failures >= CRITICAL_FAILURES:
            return "critical"
        if self._failures or (interval_s is not None and spare_s > limits.warning_times * interval_s):
            return "warning"
        return None

    def explain(self, severity: Severity) -> Explanation:
        """What a crash would cost now, and why nothing was saved where that is known."""
        interval_s, times = self.context.settings.checkpoint_every_s, self._failures
        due = f"; one is due every {rounded(interval_s)} s" if interval_s is not None else ""
        tries = f"{times} attempts" if times != 1 else "the attempt"
        failed = f"; {tries} to save one failed" if times else ""
        evidence = self._last.evidence() if self._last else {}
        return Explanation(
            sentence=f"no checkpoint for {rounded(self._age_s)} s of training, {self._updates:,} updates{failed}{due}",
            cause=self._why or "the trainer gave no reason; look at its log",
            advice="fix what the cause names, then run `mission-tui checkpoint`; until one is saved, a crash or a stop "
            "goes back to the last checkpoint",
            evidence=({**evidence, "age_s": round(self._age_s, 1), "failures": float(times)},),
            threshold=None,
        )
