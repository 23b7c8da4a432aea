"""`ratio`: the probability ratio of new to old policy, where it must be 1 and where it should not be large.

In the first minibatch nothing has been learned yet, so r is 1 up to rounding: at most 1.2e-7 from it in 13 kinds of
policy and wrapper in fp32 on the CPU. One update outside is therefore enough. Large ratios later on are information.
"""

from __future__ import annotations

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.health.phrases import learning_rate_of, pressure_sentence, rounded
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.health.trust_region import smaller_update_advice
from mission_tui.fleet.windows import Window

FIRST, LARGEST = "train/ratio_first", "train/ratio_max"
TAGS = (FIRST, LARGEST, "train/approx_kl", "train/clip_fraction", "train/clip_range")


class Ratio(Rule):
    """One attempt's rule. What the first minibatch is off by outweighs what later ones do."""

    id = "ratio"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.ratio
        self._reduced = context.settings.reduced_precision
        self._tolerance = limits.first_reduced if self._reduced else limits.first
        self._rows = Window[Row](limits.window)
        self._mismatch = Hysteresis(1, limits.window)
        self._large = Hysteresis(limits.needed, limits.window)

    def judge(self, row: Row) -> Severity | None:
        """Critical when the first minibatch is outside its tolerance, until a whole window was inside."""
        first, largest = row.metrics.get(FIRST), row.metrics.get(LARGEST)
        if first is not None or largest is not None:
            self._rows.append(row)
        if first is not None:
            self._mismatch.update(over=first > self._tolerance, calm=first <= self._tolerance)
        if largest is not None:
            self._large.update(over=largest > self._limits.largest, calm=largest <= self._limits.largest)
        if self._mismatch.on:
            return "critical"
        return "info" if self._large.on else None

    def explain(self, severity: Severity) -> Explanation:
        """A first ratio off 1 is a mismatch of log-probabilities; a large one later is a matter of step size."""
        return self._mismatched() if severity == "critical" else self._far()

    def _mismatched(self) -> Explanation:
        row = next(
            (row for row in reversed(self._rows) if row.metrics.get(FIRST, 0.0) > self._tolerance), self._rows[-1]
        )
        precision = "reduced precision" if self._reduced else "fp32"
        return Explanation(
            sentence=f"the first minibatch of update {row.update:,} has ratios up to {row.metrics.get(FIRST, 0.0):.2g} "
            f"away from 1; {precision} explains {self._tolerance:g}",
            cause="the update computes other log-probabilities than the rollout did for the same parameters: a layer "
            "that acts differently in training (dropout, batch norm), noise, or observations that were changed between",
            advice="stop, and make the policy give the same log-probability in rollout and update",
            evidence=tuple(line.evidence(*TAGS) for line in self._rows),
            signal=FIRST,
            threshold=self._tolerance,
            window=self._limits.window,
        )

    def _far(self) -> Explanation:
        row, settings, limits = self._rows[-1], self.context.settings, self._limits
        advice, assignments = smaller_update_advice(settings, row)
        largest = max(line.metrics.get(LARGEST, 0.0) for line in self._rows)
        return Explanation(
            sentence=f"some actions became more than {limits.largest:g} times as likely within one update, in "
            f"{self._large.count} of {self._large.looks} updates; up to {rounded(largest)} times",
            cause=pressure_sentence(settings, learning_rate_of(row, settings)),
            advice=f"nothing while the return improves; otherwise {advice}",
            advice_set=assignments,
            evidence=tuple(line.evidence(*TAGS) for line in self._rows),
            signal=LARGEST,
            threshold=limits.largest,
            window=limits.window,
        )
