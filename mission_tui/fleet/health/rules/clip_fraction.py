"""`clip-fraction`: too many transitions lie outside the clip range, where they teach the policy nothing more.

Reads SB3's mean over all epochs and minibatches, which is another sample than the KL's. Of a clip range that decays it
judges what that of the start would have clipped: towards 0 everything is clipped, and nothing is wrong. The first
updates of a training clip much by themselves, so until trends may be judged it is information.
"""

from __future__ import annotations

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.health.phrases import learning_rate_of, pressure_sentence
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.health.trust_region import StepGravity, StepScale, holds_all_back, smaller_update_advice
from mission_tui.fleet.windows import Window

TAG = "train/clip_fraction"
TAGS = (TAG, "train/approx_kl", "train/clip_range", "train/learning_rate", "train/n_epochs_done", "rollout/ep_rew_mean")
NARROW = 0.1


class ClipFraction(Rule):
    """One attempt's rule; updates that say no clip fraction are passed over."""

    id = "clip-fraction"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.clip_fraction
        self._rows = Window[Row](limits.window)
        self._scale = StepScale.shared(context)
        self._high = Hysteresis(limits.needed, limits.window)
        self._very_high = Hysteresis(limits.needed, limits.window)
        self._gravity = StepGravity(context, limits.window)

    def judge(self, row: Row) -> Severity | None:
        """Warning above 0.35 in 5 of 8 updates, critical above 0.5; left only after a whole window below the lower.

        As with the KL, it is information while the return rises, and critical only while that does not hold its best.
        """
        share, limits = row.metrics.get(TAG), self._limits
        self._gravity.update(row)
        self._scale.update(row)
        if share is not None:
            self._rows.append(row)
            share = self._scale.clipped(share)
            self._high.update(over=share > limits.warning, calm=share < limits.warning_leave)
            self._very_high.update(over=share > limits.critical, calm=share < limits.critical_leave)
        if not (self._high.on or self._very_high.on):
            return None
        warm = self.context.returns.warm
        return self._gravity.of(very_large=self._very_high.on) if warm else "info"

    def explain(self, severity: Severity) -> Explanation:
        """Cause and advice are those of the KL, since the same steps go too far."""
        row, settings, limits = self._rows[-1], self.context.settings, self._limits
        very = severity == "critical"
        level, watched = (limits.critical, self._very_high) if very else (limits.warning, self._high)
        cause = pressure_sentence(settings, learning_rate_of(row, settings))
        clip = row.metrics.get("train/clip_range", settings.clip_range)
        if self._scale.narrowed:
            outside = self._scale.clipped(row.metrics[TAG])
            cause += f"; {outside:.0%} lie outside the clip range of the start, {self._scale.clip_range:.2g}"
        elif clip < NARROW:
            cause += f"; a clip range of {clip:.2g} is narrow, so small steps are clipped too"
        advice, assignments = smaller_update_advice(settings, row)
        if (narrow := holds_all_back(self._scale)) is not None:
            cause, advice, assignments = narrow
        return Explanation(
            sentence=f"more than {level:.0%} of the transitions were clipped in {watched.count} of {watched.looks} "
            f"updates, {row.metrics[TAG]:.0%} in the last",
            cause=cause,
            advice=advice,
            advice_set=assignments,
            evidence=tuple(line.evidence(*TAGS) for line in self._rows),
            signal=TAG,
            threshold=level,
            window=limits.window,
        )
