"""`grad-norm`: gradients that the cap cuts to a small part of what they were, update after update.

Adam forgives a constant scale, and healthy runs with large raw rewards live at 1,000 x the cap; what it costs is the
policy's share of a gradient that the value loss dominates. So it is trouble only while the run does not do well, and
only when it has risen, or when that share is gone: beyond 100 x the cap with updates that hardly move the policy, of a
run that has learned nothing with them and whose policy is still what it began as.
"""

from __future__ import annotations

import math
import statistics

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.health import phrases
from mission_tui.fleet.health.critic import critic_warm_up
from mission_tui.fleet.health.doing_well import Success
from mission_tui.fleet.health.returns import Quantiles
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.health.trust_region import u_of
from mission_tui.fleet.windows import Numbers, Sorted, Window

TAG = "train/grad_norm"
TAGS = (TAG, "train/grad_norm_max", "train/grad_clipped_share", "train/value_loss", "rollout/ep_rew_mean")
SPREADS = ("policy/entropy_ratio", "policy/std_min_ratio")
MOVED = 0.05
"""A policy whose entropy or deviation differs from the first one by so much of it has been moved."""
EVIDENCE = 8
OTHER_SCALE = 100.0
"""How far gradients have risen where rewards have another scale, so that values have to learn one anyway. Rewards of
100 times the size made it 130 x and more, reversed ones up to 38 x.
"""
TINY = 1e-300


class GradNorm(Rule):
    """One attempt's rule; outside logs have no gradient norm."""

    id = "grad-norm"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.grad_norm
        self._cap = context.settings.max_grad_norm
        self._norms = Sorted(limits.updates)
        self._usual = Quantiles()
        self._rows = Window[Row](EVIDENCE)
        self._high = Hysteresis(1, limits.updates)
        self._times = 0.0
        self._us = Numbers(limits.updates)
        self._exploded = self._rescaled = False
        self._severity: Severity | None = None
        self._success = Success.shared(context, limits.best_share)
        self._warm_up = critic_warm_up(context)
        self._spread_first = self._spread_now = math.nan

    def judge(self, row: Row) -> Severity | None:
        """Median of 20 updates above 10 x `max_grad_norm` and 3 x the run's own while the return is poor: warning.

        Above 100 x it need not have risen where the policy hardly moves, and is information where it does; above 100 x
        and 10 x the run's own it is critical, and a warning whatever the return does, since rewards that jump take the
        return with them.
        """
        norm, limits = row.metrics.get(TAG), self._limits
        if norm is None and not self._rows:
            return None
        self._success.update(row)
        self._follow_spread(row)
        if norm is not None and math.isfinite(norm) and self._cap > 0.0:
            self._rows.append(row)
            self._norms.append(norm)
            self._usual.add(norm)
            u = u_of(row, self.context.settings)
            if u is not None:
                self._us.append(u)
            if len(self._norms) == limits.updates:
                self._times = self._norms.median / self._cap
                self._high.update(over=self._times > limits.warning, calm=self._times < limits.warning / 2.0)
        if not self._high.on:
            self._exploded, self._rescaled, self._severity = False, False, None
            return None
        poor = self._success.poor and not (self._severity is None and self._success.rises_now)
        risen = self._times * self._cap / max(self._usual.at(0.5) or 0.0, TINY)
        far = self._times > limits.critical
        self._exploded = self._exploded or (far and risen > limits.critical_rise)
        self._rescaled = self._rescaled or risen > OTHER_SCALE
        if not (poor or self._exploded):
            self._severity = None
        elif self._times > limits.warning and self.context.returns.warm:
            if self._exploded and poor:
                self._severity = "critical"
            elif self._exploded or (far and self._drowned) or risen > limits.warning_rise:
                self._severity = "critical" if self._severity == "critical" else "warning"
            elif far:
                self._severity = self._severity or "info"
        return self._severity

    def _follow_spread(self, row: Row) -> None:
        """How much the policy leaves to chance, at first and now: shares of the maximum, or of the start."""
        for tag in SPREADS:
            if tag in row.metrics:
                self._spread_now = row.metrics[tag]
                if math.isnan(self._spread_first):
                    self._spread_first = self._spread_now

    @property
    def _drowned(self) -> bool:
        """Whether the policy's share of the gradient is gone: it hardly moves, and has learned nothing with such norms
        although it had as long as values take to say something. Steps that are each next to nothing add up in a
        policy that learns: its return finds new bests, or it has other entropy than it began with.
        """
        if self._success.gained or self._success.rises_now or self.context.returns.updates < self._warm_up:
            return False
        if abs(self._spread_now - self._spread_first) > MOVED:
            return False
        return not self._us or statistics.median(self._us) < self.context.limits.policy_frozen.u

    def explain(self, severity: Severity) -> Explanation:
        """Tells the scale of rewards from an update that is worked too hard, and from another change of the task."""
        assignments: tuple[str, ...]
        row, settings, limits = self._rows[-1], self.context.settings, self._limits
        large = phrases.is_large(row, settings)
        level = limits.critical if severity == "critical" else limits.warning
        scale = phrases.reward_scale_sentence(row, settings)
        if large and self._success.gained and not self._rescaled:
            # What it learned, it learned at this scale: of three that went on with another all did worse, of five whose
            # return held none did better.
            advice = f"{phrases.ENVIRONMENT_FIRST}; if nothing did, {phrases.normalise_anew(settings)}"
            cause, assignments = scale, ()
        elif large:
            cause, assignments = scale, phrases.normalized_rewards(settings)
            advice = "normalise rewards" if assignments else phrases.normalise_anew(settings)
        else:
            cause = phrases.pressure_sentence(settings, phrases.learning_rate_of(row, settings))
            advice, assignments = "halve the learning rate", phrases.halved_learning_rate(settings, row)
        return Explanation(
            sentence=(
                f"gradients are {phrases.rounded(self._times)} x their limit (median of {limits.updates} "
                f"updates, max_grad_norm = {self._cap:g}), and "
                f"{self._success.complaint if self._success.poor else 'they were much smaller before'}"
            ),
            cause=cause,
            advice=advice,
            advice_set=assignments,
            evidence=tuple(row.evidence(*TAGS) for row in self._rows),
            signal=TAG,
            threshold=level * self._cap,
            window=limits.updates,
        )
