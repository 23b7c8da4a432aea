"""`ent-coef`: SAC's entropy coefficient has grown far beyond where it began, so that randomness pays more than reward.

SAC tunes it until the policy is as random as `target_entropy` asks. Healthy ones fall from their start, or rise a
little; where the policy cannot be made so random (actions at their bounds, a target too high), it grows for ever. The
levels are chosen and not measured.
"""

from __future__ import annotations

import math

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.health.phrases import rounded
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.windows import Window

TAG = "train/ent_coef"
TAGS = (TAG, "train/ent_coef_loss", "train/actor_loss", "train/critic_loss", "rollout/ep_rew_mean")
EVIDENCE = 8


class EntropyCoefficient(Rule):
    """One attempt's rule; rows without a coefficient and a critic change nothing."""

    id = "ent-coef"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.ent_coef
        self._start: float | None = None
        self._rows = Window[Row](EVIDENCE)
        self._high = Hysteresis(limits.updates, limits.updates)
        self._worst = Hysteresis(limits.updates, limits.updates)

    def judge(self, row: Row) -> Severity | None:
        """Warning above 10 x its first value in 5 rows, critical above 100 x, until it is below 5 x again."""
        coefficient, limits = row.metrics.get(TAG, math.nan), self._limits
        if "train/critic_loss" in row.metrics and 0.0 < coefficient < math.inf:
            self._start = self._start or coefficient
            self._rows.append(row)
            times = coefficient / self._start
            self._high.update(over=times > limits.warning, calm=times < limits.leave)
            self._worst.update(over=times > limits.critical, calm=times < limits.warning)
        if self._worst.on:
            return "critical"
        return "warning" if self._high.on else None

    def explain(self, severity: Severity) -> Explanation:
        """How far it has come, and what the reward counts for beside it."""
        row, start, limits = self._rows[-1], self._start or 0.0, self._limits
        coefficient = row.metrics[TAG]
        return Explanation(
            sentence=f"entropy coefficient is {rounded(coefficient)}, {rounded(coefficient / start)} x its start of "
            f"{rounded(start)}: randomness pays more than reward",
            cause="the policy cannot be made as random as target_entropy asks, often because its actions lie at their "
            "bounds",
            advice="set a lower target_entropy, or a fixed ent_coef, and look at the scale of actions and rewards",
            evidence=tuple(it.evidence(*TAGS) for it in self._rows),
            signal=TAG,
            threshold=(limits.critical if severity == "critical" else limits.warning) * start,
            window=limits.updates,
        )
