"""Whether the value function is asked for more than the next reward, and from when on it may be judged.

What the settings say is known; of a log without settings the losses tell it. Values that look no step ahead miss by no
more than a reward: at a discount of nearly 0 their targets are rewards, whose mean square follows from the mean return
and length of the episodes.
"""

from __future__ import annotations

import math
import statistics

from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.health.rule import Hysteresis, Row, RuleContext
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.windows import Window

VALUE_LOSS = "train/value_loss"
EXPLAINED = "train/explained_variance"
NEEDED, LOOKS = 12, 16
SHORTEST = 5.0
"""Steps of an episode from which on it matters how far ahead values look."""
NEAR = 0.5
"""A gamma up to this looks at most two steps ahead."""
ABSURD = -1e4
OF_REWARDS, AT_FIRST = 1.5, 5.0
"""Mean square rewards by which values miss; before they have learned anything, more."""
LEAST_OF_REWARDS = 0.02
"""Of small rewards at each step values miss by far less than a step pays, as the square of what is small is smaller."""
MOST_WON = 0.9
PERFECT = 0.99
OF_ONE_REWARD = 0.1
"""Mean square rewards that values of single rewards miss by, measured: 1e-3; values that look ahead 0.7."""
THE_SAME = 0.02
"""Of the largest mean return, by how much those of 16 updates may differ where every episode returns the same."""
LEAST_SHARE = 1e-6
NORMALIZED = 20.0
"""Variance that targets of normalised rewards do not have: it is about 1, and was seen up to 4.4."""
VARY = 1.3
"""Spread of the targets in mean rewards, measured: at a gamma of 0 at most 1, else at least 1.95."""
SHORT_BUDGET_SHARE = 1.0 / 3.0


def critic_warm_up(context: RuleContext) -> int:
    """Updates until it can be asked whether values explain anything: the shipped 100 or a tenth of the budget.

    Of a budget that is itself only 100 updates long nothing would be left to judge.
    """
    limits, budget = context.limits.explained_variance, context.settings.budget
    if budget is None:
        return limits.warm_up
    return round(max(limits.warm_up_share * budget, min(limits.warm_up, SHORT_BUDGET_SHARE * budget)))


class ValueHorizon:
    """Whether values look no further than a step or two ahead, in episodes that are longer."""

    def __init__(self, settings: Settings) -> None:
        self._gamma = settings.gamma
        self._looks = Window[tuple[float, float, float, float]](LOOKS)
        self._same = Hysteresis(NEEDED, LOOKS)
        self._largest_loss = self._most = 0.0
        self._return = math.nan
        self._paid = (math.inf, -math.inf)
        self.length = 0.0

    def update(self, row: Row) -> None:
        """Take in one update."""
        self.length = row.metrics.get("rollout/ep_len_mean", self.length)
        if self._gamma is not None and self._gamma > NEAR:
            return  # whatever the losses say
        mean, loss = row.metrics.get(RETURN, math.nan), row.metrics.get(VALUE_LOSS, math.nan)
        explained = row.metrics.get(EXPLAINED)
        if not (math.isfinite(mean) and math.isfinite(loss)) or self.length < SHORTEST or explained is None:
            return
        self._paid = min(self._paid[0], mean / self.length), max(self._paid[1], mean / self.length)
        self._largest_loss, self._most = max(self._largest_loss, loss), max(self._most, mean / self.length)
        if not math.isnan(explained):
            self._looks.append((loss, mean / self.length, explained, mean))
        # SB3 says nan where all targets are the same, and some huge negative number where they are but for rounding. Of
        # targets that hold the value of a next state no two are alike, whatever the return does; rounding needs more.
        same = math.isnan(explained) or (explained < ABSURD and mean != self._return)
        self._same.update(over=same, calm=not same)
        self._return = mean

    def is_none(self, *, risen: bool) -> bool:
        """Whether it is known, or what 16 updates say of it; `risen` is whether the return ever rose."""
        if self.length < SHORTEST:
            return False
        if self._gamma is not None:
            return self._gamma <= NEAR
        seen = len(self._looks) == LOOKS
        near = seen and not risen and (self._of_single_rewards or self._perfect or self._vary_as_rewards)
        return self._same.on or near

    @property
    def tells_nothing(self) -> bool:
        """Whether all targets are the same, and every step of this training was paid the same: no action is worth more
        than another then, whatever the return does. Where pay has risen to that, the policy has learned all it can.
        """
        least, most = self._paid
        alike = most - least <= THE_SAME * max(abs(least), abs(most))
        return alike and self._same.on and self.is_none(risen=True)

    @property
    def _perfect(self) -> bool:
        """Values are next to never wrong, as those of good policies are too: what a poor one earns later is chance.

        They miss by next to nothing of a single reward then. Where rewards are distances, those of a poor policy may be
        as good although they look far ahead, and miss by about a reward. Where every episode returns the same, as of
        a task that was solved at once, nothing is left to chance, and values that look far ahead are as good.
        """
        loss = statistics.fmean(loss for loss, *_ in self._looks)
        reward = statistics.fmean(reward for _, reward, *_ in self._looks)
        explained = statistics.median(explained for _, _, explained, _ in self._looks)
        means = [mean for *_, mean in self._looks]
        varied = max(means) - min(means) > THE_SAME * max(map(abs, means))
        return varied and explained > PERFECT and loss <= OF_ONE_REWARD * reward * reward

    @property
    def _vary_as_rewards(self) -> bool:
        """Targets vary by no more than a reward pays: their variance is the loss over the share that is not explained.
        So do those of states that are all worth the same hundred rewards; values that knew nothing missed by those.

        A log's returns are those of the task. Where its losses may be of normalised rewards they cannot be compared.
        """
        variance = statistics.median(loss / max(1.0 - explained, LEAST_SHARE) for loss, _, explained, _ in self._looks)
        reward = statistics.median(reward for _, reward, *_ in self._looks)
        most = max(map(abs, self._paid))
        single = self._largest_loss < AT_FIRST * most * most
        return single and NORMALIZED < variance < VARY * VARY * reward * reward

    @property
    def _of_single_rewards(self) -> bool:
        """Where a reward of 1 ends an episode, values miss by what a step pays on average, and not by what follows.

        Where nearly every episode ends so, there is next to nothing to miss by; nor is there where each step is paid
        a little, whatever values look at.
        """
        loss = statistics.fmean(loss for loss, *_ in self._looks)
        reward = statistics.fmean(reward for _, reward, *_ in self._looks)
        never_missed_more = self._largest_loss < AT_FIRST * self._most
        if not (0.0 < reward * self.length < MOST_WON and never_missed_more):
            return False
        return LEAST_OF_REWARDS * reward < loss < OF_REWARDS * reward
