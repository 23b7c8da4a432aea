"""`plateau`: no better return for a long time. Information only, since every run that has learned its task ends in one.

It is silent where the task is known to be solved (see `success`), and where the return stands still exactly at its
best, as it does where no more can be had.

A return that never rose above where it began is told once half of the budget is used, however few updates that was:
that so much is spent for nothing yet is true of slow and sparse tasks too, and whether it is trouble a person knows.
"""

from __future__ import annotations

import math

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.health.doing_well import REAL_GAIN, Success
from mission_tui.fleet.health.phrases import learning_rate_of
from mission_tui.fleet.health.rule import Explanation, Row, Rule, RuleContext
from mission_tui.fleet.health.usual_settings import STILL_RANDOM
from mission_tui.fleet.windows import Window

BEST_SHARE = 0.9
ERRORS = 4.0
LATE_SHARE, FEWEST = 0.5, 20
"""Of the budget, and updates that said a return: what is known of half a training in which few episodes end is little.
"""
AT_RANDOM = 0.97
"""Of its first entropy, from which on a policy chooses as it did untrained. Measured: 0.99 where an entropy bonus of 1
outweighs the task, below 0.95 in MountainCar, whose return never moves either."""
ENTROPY, STD = "train/entropy_loss", "train/std"
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
        self._unmoved = False
        self._began: int | None = None
        self._entropy = 0.0
        self._row: Row | None = None
        self._evidence = Window[dict[str, Metric]](EVIDENCE - 1)

    def judge(self, row: Row) -> Severity | None:
        """Information once the smoothed return has not beaten its best by 2 % of the range for 200 updates, or has not
        moved by more than chance in half of the budget.
        """
        returns, limits = self.context.returns, self._limits
        self._success.update(row)
        self._entropy = self._entropy or max(0.0, -row.metrics.get(ENTROPY, 0.0))
        if "rollout/ep_rew_mean" in row.metrics and returns.best is not None:
            self._row = row
            if self._known % max(1, limits.updates // EVIDENCE) == 0:
                self._evidence.append(row.evidence(*TAGS))
            self._known += 1
            if returns.best > self._level and returns.best - self._level >= self._least_gain():
                self._level, self._level_update, self._known = returns.best, row.update, 0
        # A gain that is no longer chance ends it, and is twice as large as one that may be.
        errors = REAL_GAIN if self._unmoved else ERRORS
        late = self._late(row) and returns.known >= FEWEST and not returns.bursts.has_gained
        self._unmoved = late and self._success.gain <= errors * returns.smooth_error
        if not (self._known >= limits.updates or self._unmoved) or not returns.warm or self._done():
            return None
        return "info"

    def _late(self, row: Row) -> bool:
        """Whether half of the budget went by since the first row: a resume of a good policy is not late at once."""
        total = self.context.settings.total_timesteps
        self._began = row.timesteps if self._began is None else self._began
        return self._unmoved or (total is not None and row.timesteps - self._began >= LATE_SHARE * total)

    def _least_gain(self) -> float:
        """What a better return must be better by: chance alone makes the best of many a little better ever again."""
        returns = self.context.returns
        return max(self._limits.share * returns.span, ERRORS * returns.smooth_error)

    def explain(self, severity: Severity) -> Explanation:
        """Since when, at which return, and what is left to turn up."""
        if self._unmoved:
            return self._explain_unmoved()
        settings, row = self.context.settings, self._row
        rate = learning_rate_of(row, settings)
        at = f" at a learning rate of {rate:.3g}" if rate is not None else ""
        share = settings.total_timesteps and row and row.timesteps / settings.total_timesteps
        left = f", with {1.0 - share:.0%} of the budget left" if share and 0.0 <= share <= 1.0 else ""
        bonus = settings.ent_coef
        said = f"ppo.ent_coef = {bonus:g}" if bonus is not None else self.context.losses.large_bonus
        explore = f"; {said}" if said else ""
        advice = "explore more, or learn with smaller steps"
        assignments = ("ppo.ent_coef=0.01",) if bonus == 0.0 else ()
        if self.context.losses.large_bonus:
            # It is paid for exploring already, and so much that this may be what holds the return.
            advice, assignments = "learn with a smaller entropy bonus, or smaller steps", ("ppo.ent_coef=0.01",)
        return Explanation(
            sentence=f"no better return than {self._level:.4g} since update {self._level_update:,}",
            cause=f"training has settled{at}{left}{explore}",
            advice=f"stop if this is good enough; else {advice}",
            advice_set=assignments,
            evidence=(*self._evidence, *([row.evidence(*TAGS)] if row else [])),
            signal="rollout/ep_rew_mean",
            threshold=self._level,
            window=self._limits.updates,
        )

    def _explain_unmoved(self) -> Explanation:
        """Whether anything ever paid differently, and whether the policy still chooses as it did untrained."""
        settings, returns, row = self.context.settings, self.context.returns, self._row
        same = returns.high == returns.low
        entropy, bonus = self._entropy_share(), settings.ent_coef
        if same:
            sentence = f"the mean return has been {returns.high:.4g} in all of {returns.known:,} updates"
            cause = "nothing that the policy did was paid differently yet"
            advice = "pay for steps on the way to the goal, or explore more"
        else:
            now, start = returns.smooth or 0.0, (returns.best or 0.0) - self._success.gain
            sentence = (
                f"in {returns.known:,} updates the return has not risen by more than chance: {start:.4g} at first, "
                f"{now:.4g} now"
            )
            cause = "the policy has not found anything that pays more"
            advice = "explore more, or learn with larger steps"
        if entropy is not None:
            cause += f"; its entropy is {entropy:.0%} of what it was at its start"
        if row is not None and STD in row.metrics:
            cause += f"; its actions have a standard deviation of {row.metrics[STD]:.2g}"
        if bonus is not None:
            cause += f"; ppo.ent_coef = {bonus:g}"
        assignments = ("ppo.ent_coef=0.01",) if bonus == 0.0 else ()
        if entropy is not None and entropy >= AT_RANDOM and not same:
            cause += ": it still chooses as at random"
            advice = "learn with larger steps or a smaller entropy bonus"
            assignments = ()
        large = self.context.losses.large_bonus
        if large and not same and (entropy is None or entropy >= STILL_RANDOM):
            cause += f"; {large}" if bonus is None else ""
            advice, assignments = "learn with a smaller entropy bonus", ("ppo.ent_coef=0.01",)
        return Explanation(
            sentence=sentence,
            cause=cause,
            advice=f"nothing if this is as good as it gets; otherwise {advice}",
            advice_set=assignments,
            evidence=(*self._evidence, *([row.evidence(*TAGS)] if row else [])),
            signal="rollout/ep_rew_mean",
            threshold=self._level if math.isfinite(self._level) else None,
            window=self._limits.updates,
        )

    def _entropy_share(self) -> float | None:
        """What is left of the first entropy; None where actions are continuous, whose entropy has no zero."""
        row = self._row
        entropy = -row.metrics.get(ENTROPY, math.nan) if row is not None else math.nan
        if row is None or STD in row.metrics or not self._entropy or not 0.0 <= entropy < math.inf:
            return None
        return entropy / self._entropy

    def _done(self) -> bool:
        returns = self.context.returns
        if self._success.solved:
            return True
        at_best = returns.latest is not None and returns.latest >= returns.high > returns.low
        return at_best and returns.noise == 0.0
