"""Whether a run does well by its own returns, which makes a narrow policy or a poor value function no trouble.

Solved is what the environment says: its threshold, its success rate, its winning outcomes. Doing well is what the
returns say: a new best lately, or a clear rise that has been kept and that the environment does not call nothing. A
mean over 100 episodes wanders even when nothing is learned, so slopes prove little; new bests of it get rare.
"""

from __future__ import annotations

import math
from itertools import combinations

from mission_tui.fleet.health.episode_endings import LARGEST_COUNT, MISSION_GYM, kind_of
from mission_tui.fleet.health.phrases import lost_share
from mission_tui.fleet.health.rule import Hysteresis, Row, RuleContext
from mission_tui.fleet.windows import Window

BEST_SHARE = SOLVED_SHARE = 0.9
NOTHING_SHARE, HALF_WAY = 0.05, 0.5
EPISODES = 20.0
FORGETTING = 0.9
FIRST = 5
WINDOW = 32
RISE_SHARE = 0.05
CLEAR_GAIN = 2.0
REAL_GAIN = 8.0
"""Standard errors of the mean return that a gain must be worth: long enough, a mean wanders over six."""
NEEDED, LOOKS = 12, 16
SLACK_ERRORS = 2.0
"""The best of many noisy means lies above their level: below it by less than this many standard errors is near it."""
LATELY, TREND, TREND_SHARE = 16, 8, 0.5
"""Updates in which a new best is lately, where less patience is due; and updates of which pairs of means are compared,
with how many more of these must rise than fall. Chance does that to one flat course in fifteen.
"""
CEILING_SHARE, CEILING_RANGE = 0.95, 0.05
"""At a ceiling, the share of the gain that is held, and what of the gain the returns still vary by."""


class Success:
    """Follows one attempt; `best_share` of the way from the first returns to the best counts as near the best."""

    def __init__(self, context: RuleContext, best_share: float = BEST_SHARE) -> None:
        self._context = context
        self._best_share = best_share
        self._first: list[float] = []
        self._start = math.nan
        self._first_is_whole = False
        self._recent = Window[float](WINDOW)
        self._bests = Window[float](WINDOW)
        self._rises: bool | None = None
        self._poor = Hysteresis(NEEDED, LOOKS)
        self._won = self._ended = 0.0
        self._winnable = MISSION_GYM in context.settings.env_id
        self._success_rate: float | None = None
        self._row: Row | None = None

    @classmethod
    def shared(cls, context: RuleContext, best_share: float = BEST_SHARE) -> Success:
        """The one of all rules of `context` that take in every update."""
        return context.shared((cls, best_share), lambda: cls(context, best_share))

    def update(self, row: Row) -> None:
        """Take in one update, after the run's returns have. The same row again is passed over."""
        if row is self._row:
            return
        self._row, self._rises = row, None
        self._success_rate = row.metrics.get("rollout/success_rate", self._success_rate)
        if row.outcomes:
            won = ended = 0
            for name, count in row.outcomes.items():
                episodes = min(count, LARGEST_COUNT)
                ended += episodes
                won += episodes if kind_of(name) == "won" else 0
            self._winnable = self._winnable or won > 0
            self._won = FORGETTING * self._won + won
            self._ended = FORGETTING * self._ended + ended
        mean, best = row.metrics.get("rollout/ep_rew_mean"), self._context.returns.best
        if mean is None or best is None or not math.isfinite(mean):
            return
        self._recent.append(mean)
        self._bests.append(best)
        if len(self._first) < FIRST and not self._first_is_whole:
            self._first.append(mean)
            self._start = sum(self._first) / len(self._first)
            self._first_is_whole = _episodes_by(row) >= self._context.settings.stats_window
        if len(self._recent) >= LOOKS:
            well = self.well
            self._poor.update(over=not well, calm=well)

    @property
    def solved(self) -> bool:
        """Whether the environment itself says so; what it does not say is not known, and not solved."""
        threshold, smooth = self._context.settings.reward_threshold, self._context.returns.smooth
        if threshold is not None and smooth is not None and smooth >= threshold and not self._falls:
            return True
        if self._success_rate is not None and self._success_rate >= SOLVED_SHARE:
            return True
        return self._ended >= EPISODES and self._won >= SOLVED_SHARE * self._ended

    @property
    def poor(self) -> bool:
        """Whether it has not done well in 12 of 16 updates, and not yet for 16 in a row since."""
        return self._poor.on and not self.solved

    @property
    def well(self) -> bool:
        """Solved, at a new best lately, or clearly above the first returns and near the best; False when unknown."""
        return self.solved or self._rising or self.near_best

    @property
    def near_best(self) -> bool:
        """Whether the smoothed return stands near its best, and the best clearly above the first returns."""
        returns = self._context.returns
        smooth, best = returns.smooth, returns.best
        if smooth is None or best is None or returns.latest is None or not self._first or self._falls:
            return False
        gain = best - self._start
        # The smoothed return lags behind one that has come back by more than its own error.
        level = max(smooth, returns.latest - returns.error)
        if not level - self._start >= self._best_share * gain - SLACK_ERRORS * returns.error:
            return False
        clear = self.gained or not gain <= CLEAR_GAIN * (max(self._recent) - min(self._recent))
        return clear and not self.shortfall

    @property
    def gain(self) -> float:
        """How far the best smoothed return lies above the first returns."""
        best = self._context.returns.best
        return 0.0 if best is None or not self._first else best - self._start

    @property
    def gained(self) -> bool:
        """Whether that is further than a smoothed mean wanders by itself."""
        return self.gain > REAL_GAIN * self._context.returns.smooth_error

    @property
    def holds(self) -> bool:
        """Solved, or half of what was really gained is still there: nothing is being lost that could not come back."""
        returns = self._context.returns
        if self.solved or not self.gained or returns.smooth is None or returns.best is None:
            return self.solved
        half = returns.smooth - self._start >= HALF_WAY * (returns.best - self._start)
        return half and not self._falls and not self.shortfall

    @property
    def rises_now(self) -> bool:
        """Whether the return has found new bests lately and stands at the newest: what is done to it does it good."""
        return self._rising and self._stands_at_its_best

    @property
    def may_rise(self) -> bool:
        """Whether that is so of the last 16 updates, or the means of the last eight go up at all, be it by chance."""
        return (self._has_risen_in(LATELY) and self._stands_at_its_best) or self._goes_up

    @property
    def _stands_at_its_best(self) -> bool:
        returns = self._context.returns
        if returns.smooth is None or returns.best is None or not self._first or self._falls:
            return False
        return returns.smooth - self._start >= CEILING_SHARE * (returns.best - self._start)

    @property
    def _goes_up(self) -> bool:
        pairs = list(combinations(self._recent[-TREND:], 2))
        up = sum((later > before) - (later < before) for before, later in pairs)
        return up > 0 and up >= TREND_SHARE * len(pairs)

    @property
    def at_ceiling(self) -> bool:
        """Whether the return holds still at the best it ever had, far above where it began.

        So it looks where nothing is left to be gained. A policy that merely stands still does not: its episodes go on
        to differ, and their mean to wander.
        """
        smooth, best = self._context.returns.smooth, self._context.returns.best
        if smooth is None or best is None or len(self._recent) < LOOKS or self.shortfall:
            return False
        gain = best - self._start
        if self._falls or not smooth - self._start >= CEILING_SHARE * gain > 0.0:
            return False
        return max(self._recent) - min(self._recent) <= CEILING_RANGE * gain

    @property
    def complaint(self) -> str:
        """What is poor, in words that go on a sentence about something else."""
        if not self.shortfall and self._falls:
            newest = self._context.returns.newest
            return f"the newest {newest.COUNT} episodes have lost {lost_share(newest.share_lost)} of what was gained"
        return self.shortfall or "the return is neither rising nor near its best"

    @property
    def shortfall(self) -> str:
        """How the environment itself calls the best so far next to nothing; "" when it does not."""
        threshold, best = self._context.settings.reward_threshold, self._context.returns.best
        if threshold is not None and self._first and best is not None and self._start < threshold:
            short = best - self._start < HALF_WAY * (threshold - self._start)
            return f"the return is far from the {threshold:g} that count as solved" if short else ""
        if self._success_rate is not None:
            return "almost no episode succeeds" if self._success_rate < NOTHING_SHARE else ""
        lost = self._winnable and self._ended >= EPISODES and self._won < NOTHING_SHARE * self._ended
        return "almost no episode is won" if lost else ""

    @property
    def _falls(self) -> bool:
        """Whether the newest episodes have lost half of what was gained, be their mean with older ones as it may."""
        return self._context.returns.newest.share_lost >= HALF_WAY

    @property
    def _rising(self) -> bool:
        """Whether it has found new bests lately. Several rules ask for it in every update."""
        if self._rises is None:
            self._rises = self._has_risen_in(WINDOW)
        return self._rises

    def _has_risen_in(self, updates: int) -> bool:
        bests, returns = self._bests, self._context.returns
        if not bests:
            return False
        rise = bests[-1] - bests[-min(updates, len(bests))]
        # A noise that is not known, as of returns beyond all numbers, is none.
        return rise > 0.0 and rise > RISE_SHARE * returns.span and not rise <= returns.noise


def _episodes_by(row: Row) -> float:
    """About how many episodes have ended by now, of a training that began at step 0."""
    length = row.metrics.get("rollout/ep_len_mean", math.nan)
    return row.timesteps / length if 0.0 < length < math.inf else 0.0
