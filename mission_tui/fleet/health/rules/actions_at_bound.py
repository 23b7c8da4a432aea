"""`actions-at-bound`: more than half of all action components are cut off at a bound, and the run does not do well.

Bang-bang control is the right answer to many tasks: healthy Pendulum runs end with 0.6 of their actions at a bound. So
it is trouble only where the return is neither improving nor near its best. Under gSDE, whose noise grows with what the
policy sees, most actions of a young policy lie there, and nothing is judged.

Where nearly all of them lie there from the first update on, before the policy has learned anything, its spread is far
beyond the range: that is information, however well the run does.
"""

from __future__ import annotations

import math
from statistics import median

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.health.doing_well import Success
from mission_tui.fleet.health.phrases import ENVIRONMENT_FIRST, NONE_KNOWN, halved_learning_rate, in_new_training
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.health.trust_region import clipped_of_longer
from mission_tui.fleet.windows import Numbers, Window

SHARE, STD = "policy/actions_at_bound", "policy/std"
TAGS = (SHARE, STD, "policy/std_max_ratio", "rollout/ep_rew_mean")
EVIDENCE = 8
NEARLY_ALL = 0.8
"""A deviation of 1 in a range of 0.4 to either side, as Humanoid's, leaves 0.69 there."""
AT_FIRST = 2
WIDENED = 1.5
SMALLER_START = -1.0


class ActionsAtBound(Rule):
    """One attempt's rule; discrete policies have no such share."""

    id = "actions-at-bound"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.actions_at_bound
        self._rows = Window[Row](EVIDENCE)
        self._shares = Numbers(limits.updates)
        self._high = Hysteresis(limits.updates, limits.updates)
        self._success = Success.shared(context, limits.best_share)
        self._on = False
        self._at_first: float | None = None
        self._nearly_all = Hysteresis(limits.updates, limits.updates)

    def judge(self, row: Row) -> Severity | None:
        """Warning when more than half lay at a bound for 20 updates while the run does not do well; information when
        nearly all did from the first one on.
        """
        share = row.metrics.get(SHARE)
        if self.context.settings.use_sde or (share is None and not self._rows):
            return None
        self._success.update(row)
        if share is not None and math.isfinite(share):
            if self._at_first is None:
                young = row.update <= AT_FIRST and self.context.settings.resumed is None
                self._at_first = share if young else 0.0
            self._rows.append(row)
            self._shares.append(share)
            self._nearly_all.update(over=share > NEARLY_ALL, calm=share < NEARLY_ALL)
            self._high.update(over=share > self._limits.warning, calm=share < self._limits.leave)
        now = self._high.count == self._limits.updates and self.context.returns.warm
        self._on = self._high.on and self._success.poor and (self._on or now)
        if self._on:
            return "warning"
        began = self._at_first is not None and self._at_first > NEARLY_ALL
        return "info" if began and self._nearly_all.on else None

    def explain(self, severity: Severity) -> Explanation:
        """Tells wide actions from a mean that lies beyond the bound, by the standard deviation of the run."""
        row, typical = self._rows[-1], median(self._shares)
        ratio = row.metrics.get("policy/std_max_ratio")
        wide = ratio is not None and ratio > 1.0
        wide = wide and not self._began_wide(row)
        advice, assignments = self._advice(row, wide)
        said = f"{typical:.0%} of actions lie at a bound, for {len(self._shares)} updates"
        if severity == "info":
            advice = f"nothing if the task is solved; otherwise {advice}"
        return Explanation(
            sentence=f"{said}, from the first one on"
            if severity == "info"
            else f"{said}, and {self._success.complaint}",
            cause=self._cause(row, wide),
            advice=advice,
            advice_set=assignments,
            evidence=tuple(line.evidence(*TAGS) for line in self._rows),
            signal=SHARE,
            threshold=self._limits.warning,
            window=self._limits.updates,
        )

    def _advice(self, row: Row, wide: bool) -> tuple[str, tuple[str, ...]]:
        settings = self.context.settings
        if wide and settings.ent_coef:
            return "lower the entropy bonus", (f"ppo.ent_coef={settings.ent_coef / 10.0:.2g}",)
        if wide:
            return "go back to an earlier checkpoint with half the learning rate", halved_learning_rate(settings, row)
        if self._began_wide(row):
            # Only a new network starts with `log_std_init`: a resume goes on with the deviation that was learned.
            smaller = in_new_training(settings, f"ppo.policy_kwargs.log_std_init={SMALLER_START:g}")
            return (
                "scale the actions of the environment to -1..1, or begin with a smaller standard deviation, in a new "
                f"training{smaller}"
            ), ()
        return f"{ENVIRONMENT_FIRST}: {NONE_KNOWN}", ()

    def _began_wide(self, row: Row) -> bool:
        """Whether an untrained policy, whose mean is about 0, had most actions there, and its spread alone still has.

        Its share at the first update tells how far the bound lies, in deviations of the start.
        """
        ratio = row.metrics.get("policy/std_max_ratio", math.nan)
        return ratio < WIDENED and clipped_of_longer(self._at_first or 0.0, ratio) > self._limits.warning

    def _cause(self, row: Row, wide: bool) -> str:
        std, ratio, coef = row.metrics.get(STD), row.metrics.get("policy/std_max_ratio"), self.context.settings.ent_coef
        if std is None or ratio is None:
            return "the policy's mean or its spread lies beyond the action range"
        how = f"the actions' standard deviation is {std:.2g}, {ratio:.2g} x its start"
        if self._began_wide(row):
            return f"{how}: they lay at a bound before anything was learned, so it is too wide for the action range"
        if wide:
            return how + (f", and ppo.ent_coef = {coef:g} rewards a wider policy" if coef else "")
        return f"{how}, so it is the policy's mean that lies beyond the action range"
