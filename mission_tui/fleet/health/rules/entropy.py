"""`entropy-collapse`: a discrete policy that stops exploring before it has learned.

Reads H / Hmax (of several heads the smallest). Outside logs only say the entropy: 2 % of the run's own start is at most
2 % of the maximum, so that much is judged where SB3 would have said a standard deviation if actions were continuous.
Healthy runs halve their entropy within a tenth of a short budget and end at 0.02: it counts while the return is poor.
"""

from __future__ import annotations

import math

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import spoken
from mission_tui.fleet.health import phrases
from mission_tui.fleet.health.doing_well import Success
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.health.trust_region import u_of
from mission_tui.fleet.windows import Numbers, Sorted, Window

RATIO, LOSS = "policy/entropy_ratio", "train/entropy_loss"
TAGS = (RATIO, LOSS, "train/approx_kl", "rollout/ep_rew_mean")
EVIDENCE = 8
SMOOTHING = 5
BLOCKS = 32
UNKNOWN_BUDGET = 500
LEAVE = 2.0
HIGH_PRESSURE = 4.0
LEAST_COEF, MOST_COEF = 0.01, 0.1


class EntropyCollapse(Rule):
    """One attempt's rule; updates without an entropy change nothing."""

    id = "entropy-collapse"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.entropy_collapse
        budget = context.settings.budget or UNKNOWN_BUDGET
        self._within = max(SMOOTHING, round(limits.within_share * budget))
        self._block = math.ceil(self._within / BLOCKS)
        self._rows = Window[tuple[Row, float]](EVIDENCE)
        self._recent = Sorted(SMOOTHING)
        self._peaks = Numbers(math.ceil(self._within / self._block))
        self._in_block = self._fallen_for = 0
        self._start = self._peak = self._highest_peak = self._fallen_from = 0.0
        self._gone = Hysteresis(limits.critical_updates, limits.critical_updates)
        self._success = Success.shared(context, limits.best_share)
        self._stuck = self._of_start = self._discrete = self._continuous = False

    def judge(self, row: Row) -> Severity | None:
        """Warning for a fall by half within a tenth of the budget, critical below 0.02 for 5 updates.

        Both only while the run does not do well; critical also wants the return flat or the policy standing still.
        """
        ratio = self._ratio(row)
        if ratio is None and not self._rows:
            return None
        self._success.update(row)
        if ratio is not None:
            self._rows.append((row, ratio))
            if not self._of_start:
                self._follow(ratio)
            bottom = self._limits.critical
            self._gone.update(over=ratio < bottom, calm=ratio >= LEAVE * bottom)
        returns = self.context.returns
        if not (self._fallen_from or self._gone.on) or not returns.warm or not self._success.poor:
            self._stuck = False
            return None
        self._stuck = self._gone.on and (self._stuck or bool(returns.flat) or self._still(row))
        return "critical" if self._stuck else "warning"

    def explain(self, severity: Severity) -> Explanation:
        """Cause from the entropy bonus and the update pressure of the run."""
        row, _ = self._rows[-1]
        settings = self.context.settings
        rate = phrases.learning_rate_of(row, settings)
        advice, assignments = self._advice(row, phrases.pressure_of(settings, rate))
        return Explanation(
            sentence=self._sentence(),
            cause=self._bonus() + phrases.pressure_sentence(settings, rate),
            advice=advice,
            advice_set=assignments,
            evidence=tuple(row.evidence(*TAGS) | {"ratio": spoken(round(ratio, 4))} for row, ratio in self._rows),
            signal=LOSS if self._of_start else RATIO,
            threshold=self._threshold(),
            window=SMOOTHING if self._gone.on else self._within,
        )

    def _bonus(self) -> str:
        coef = self.context.settings.ent_coef
        if coef is None:
            return ""
        return (
            f"ppo.ent_coef = {coef:g} is too small to keep the entropy up; " if coef else "there is no entropy bonus; "
        )

    def _threshold(self) -> float:
        if self._gone.on:
            return -self._limits.critical * self._start if self._of_start else self._limits.critical
        return (1.0 - self._limits.fall_share) * self._fallen_from

    def _sentence(self) -> str:
        ratio, limits = self._rows[-1][1], self._limits
        what = "of its start" if self._of_start else "of its maximum"
        poor = self._success.complaint
        if self._gone.on:
            return f"the policy has stopped exploring: entropy at {max(0.0, ratio):.2%} {what}, and {poor}"
        span = f"{self._within:,} updates"
        if self.context.settings.budget:
            span += f" ({limits.within_share:.0%} of the budget)"
        return f"entropy fell from {self._fallen_from:.0%} to {ratio:.0%} {what} within {span}, and {poor}"

    def _advice(self, row: Row, pressure: float | None) -> tuple[str, tuple[str, ...]]:
        coef, before = self.context.settings.ent_coef, "go back to a checkpoint from before the fall"
        if self._success.gained:
            # The same settings taught it once: of 17 such trainings half the rate helped one.
            before = f"{phrases.ENVIRONMENT_FIRST}; if nothing did, {before}"
        if pressure is not None and pressure >= HIGH_PRESSURE:
            return f"{before}, with half the learning rate", phrases.halved_learning_rate(self.context.settings, row)
        if coef is None:
            return f"{before}, with a larger entropy bonus", ()
        if coef >= MOST_COEF:
            return f"{before}, with half the learning rate", phrases.halved_learning_rate(self.context.settings, row)
        wanted = min(MOST_COEF, max(LEAST_COEF, 3.0 * coef))
        return f"{before}, with a larger entropy bonus", (f"ppo.ent_coef={wanted:.2g}",)

    def _ratio(self, row: Row) -> float | None:
        """The entropy as a share of its maximum; in a discrete outside log, of its start."""
        ratio = row.metrics.get(RATIO)
        if ratio is not None:
            self._of_start = False
            return ratio if math.isfinite(ratio) else None
        self._discrete = self._discrete or "train/clip_range" in row.metrics
        self._continuous = self._continuous or "train/std" in row.metrics or "policy/std" in row.metrics
        loss = row.metrics.get(LOSS)
        if self._continuous or not self._discrete or loss is None or not -math.inf < loss < 0.0:
            return None
        self._start = self._start or -loss
        self._of_start = True
        return -loss / self._start

    def _follow(self, ratio: float) -> None:
        """Keep the highest smoothed entropy of the last tenth of the budget, and whether half of it is gone."""
        self._recent.append(ratio)
        level = self._recent.median
        if self._fallen_from:
            self._fallen_for += 1
            recovered = level > (1.0 - self._limits.fall_share / LEAVE) * self._fallen_from
            if recovered or self._fallen_for > self._within:
                self._fallen_from = 0.0
        elif level < (1.0 - self._limits.fall_share) * (peak := self._highest_peak if self._peaks else self._peak):
            self._fallen_from, self._fallen_for = peak, 0
        self._peak = max(self._peak, level) if self._in_block else level
        self._in_block += 1
        if self._in_block == self._block:
            self._peaks.append(self._peak)
            self._highest_peak = max(self._peaks)
            self._in_block = 0

    def _still(self, row: Row) -> bool:
        u = u_of(row, self.context.settings)
        return u is not None and u < self.context.limits.policy_frozen.u
