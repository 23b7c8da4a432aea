"""`plateau`: no better return for a long time. Information only, since every run that has learned its task ends in one.

It is silent where the task is known to be solved (see `success`), and where the return stands still exactly at its
best, as it does where no more can be had.
"""

from __future__ import annotations

import math

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.health.doing_well import Success
from mission_tui.fleet.health.phrases import learning_rate_of
from mission_tui.fleet.health.rule import Explanation, Row, Rule, RuleContext
from mission_tui.fleet.windows import Window

BEST_SHARE = 0.9
ERRORS = 4.0
TAGS = ("rollout/ep_rew_mean", "rollout/ep_len_mean", "rollout/success_rate", "train/approx_kl", "train/learning_rate")
EVIDENCE = 12


class Plateau(Rule):
    """One attempt's rule; updates that said no return do not count."""

    id = "plateau"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = context.limits.plateau
        self._success = Success.shared(context, BEST_SHARE)
        self._level = -math.inf
        self._level_update = 0
        self._known = 0
        self._row: Row | None = None
        self._evidence = Window[dict[str, Metric]](EVIDENCE - 1)

    def judge(self, row: Row) -> Severity | None:
        """Information once the smoothed return has not beaten its best by 2 % of the range for 200 updates."""
        returns, limits = self.context.returns, self._limits
        self._success.update(row)
        if "rollout/ep_rew_mean" in row.metrics and returns.best is not None:
            self._row = row
            if self._known % max(1, limits.updates // EVIDENCE) == 0:
                self._evidence.append(row.evidence(*TAGS))
            self._known += 1
            if returns.best > self._level and returns.best - self._level >= self._least_gain():
                self._level, self._level_update, self._known = returns.best, row.update, 0
        if self._known < limits.updates or not returns.warm or self._done():
            return None
        return "info"

    def _least_gain(self) -> float:
        """What a better return must be better by: chance alone makes the best of many a little better ever again."""
        returns = self.context.returns
        return max(self._limits.share * returns.span, ERRORS * returns.smooth_error)

    def explain(self, severity: Severity) -> Explanation:
        """Since when, at which return, and what is left to turn up."""
        settings, row = self.context.settings, self._row
        rate = learning_rate_of(row, settings)
        at = f" at a learning rate of {rate:.3g}" if rate is not None else ""
        share = settings.total_timesteps and row and row.timesteps / settings.total_timesteps
        left = f", with {1.0 - share:.0%} of the budget left" if share and 0.0 <= share <= 1.0 else ""
        bonus = settings.ent_coef
        explore = f"; ppo.ent_coef = {bonus:g}" if bonus is not None else ""
        return Explanation(
            sentence=f"no better return than {self._level:.4g} since update {self._level_update:,}",
            cause=f"training has settled{at}{left}{explore}",
            advice="stop if this is good enough; else explore more, or learn with smaller steps",
            advice_set=("ppo.ent_coef=0.01",) if bonus == 0.0 else (),
            evidence=(*self._evidence, *([row.evidence(*TAGS)] if row else [])),
            signal="rollout/ep_rew_mean",
            threshold=self._level,
            window=self._limits.updates,
        )

    def _done(self) -> bool:
        returns = self.context.returns
        if self._success.solved:
            return True
        at_best = returns.latest is not None and returns.latest >= returns.high > returns.low
        return at_best and returns.noise == 0.0
