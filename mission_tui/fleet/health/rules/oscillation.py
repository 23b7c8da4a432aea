"""`reward-oscillation`: a return that swings up and down instead of settling.

A swing is a way from one turning point to the next that is longer than 30 % of the range of the returns and than 4
standard errors of their difference. Where episodes are told, the means are over blocks of at least 10 new ones: the
mean of the last 100 may remember more updates than a swing lasts. Returns that never differed yet, as before the first
reward, have no range and no noise, and do not count.
"""

from __future__ import annotations

import math
import statistics

from msgspec import Struct

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import Metric, spoken
from mission_tui.fleet.health.returns import Quantiles
from mission_tui.fleet.health.rule import Explanation, Row, Rule, RuleContext
from mission_tui.fleet.health.rules.drawdown import TAGS, Drawdown, Steps
from mission_tui.fleet.windows import Window

BLOCK = 10
VARIANCE_SMOOTHING = 0.05
EVIDENCE = 12
FEWEST_POINTS = 10


class _Point(Struct, frozen=True):
    """A mean return and its standard error."""

    mean: float
    error: float


class RewardOscillation(Rule):
    """One attempt's rule."""

    id = "reward-oscillation"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = context.limits.reward_oscillation
        self._drawdown = context.shared(Drawdown, lambda: Drawdown(context))
        self._steps = Steps.shared(context)
        self._block: list[float] = []
        self._spread = Quantiles()
        self._points = 0
        self._first: float | None = None
        self._variance = 0.0
        self._high = self._low = _Point(math.nan, 0.0)
        self._direction = 0
        self._turns = Window[tuple[int, float]](EVIDENCE)
        self._evidence = Window[dict[str, Metric]](EVIDENCE)
        self._on = False

    def judge(self, row: Row) -> Severity | None:
        """Warning for at least 4 swings within 100 updates, critical with a drawdown on top."""
        limits = self._limits
        self._drawdown.judge(row)
        self._steps.update(row)
        point = self._point(row)
        if point is not None and self._differs(point):
            self._spread.add(point.mean)
            self._points += 1
            if self.context.returns.warm and self._points >= FEWEST_POINTS:
                self._turn(point, row)
        while self._turns and self._turns[0][0] <= row.update - limits.window:
            self._turns.pop(0)
        if len(self._turns) >= limits.swings:
            self._on = True
        elif len(self._turns) <= limits.leave:
            self._on = False
        if not self._on:
            return None
        return "critical" if self._drawdown.lost_half else "warning"

    def explain(self, severity: Severity) -> Explanation:
        """How many swings, between which returns, and how large the steps were that made them."""
        cause, remedy, assignments = self._steps.blame()
        turns = sorted(mean for _, mean in self._turns)
        half = len(turns) // 2
        low, high = statistics.median_low(turns[:half] or turns), statistics.median_low(turns[half:])
        lost = ", and most of what was gained is lost" if severity == "critical" else ""
        return Explanation(
            sentence=(
                f"return swung {len(turns)} times in {self._limits.window} updates, "
                f"between {low:.4g} and {high:.4g}{lost}"
            ),
            cause=cause,
            advice=remedy,
            advice_set=assignments,
            evidence=tuple(self._evidence),
            signal="rollout/ep_rew_mean",
            window=self._limits.window,
        )

    def _point(self, row: Row) -> _Point | None:
        """The next mean with its standard error, once there are enough new episodes for one."""
        if returns := self.context.returns.sampled:
            # A sum is finite only if every summand is.
            self._block += returns if math.isfinite(sum(returns)) else filter(math.isfinite, returns)
            if len(self._block) < BLOCK:
                return None
            block, self._block = self._block, []
            mean = sum(block) / len(block)
            variance = sum([(value - mean) * (value - mean) for value in block]) / (len(block) - 1)
            return self._sure(mean, variance / len(block))
        latest = row.metrics.get("rollout/ep_rew_mean")
        if self.context.returns.episodes or latest is None or not math.isfinite(latest):
            return None
        noise = self.context.returns.noise
        return self._sure(latest, noise * noise / (2.0 * self._fresh_share(row)))

    def _sure(self, mean: float, variance: float) -> _Point | None:
        """A block of equal returns, or a quiet stretch, is no surer than those before it."""
        if not math.isfinite(mean) or not math.isfinite(variance):
            return None
        self._variance += VARIANCE_SMOOTHING * (variance - self._variance) if self._points else variance
        return _Point(mean, math.sqrt(max(variance, self._variance)))

    def _differs(self, point: _Point) -> bool:
        """Whether any return has differed from the first."""
        if self._first is None:
            self._first = point.mean
        return self._points > 0 or point.mean != self._first

    def _fresh_share(self, row: Row) -> float:
        """New episodes in the mean of the last 100: neighbours differ by the error of a mean x sqrt(2 x this share)."""
        settings, length = self.context.settings, row.metrics.get("rollout/ep_len_mean", math.nan)
        if settings.rollout is None or not length > 0.0:
            return 1.0
        return min(1.0, max(1.0, settings.rollout / length) / settings.stats_window)

    def _turn(self, point: _Point, row: Row) -> None:
        """Follow the extremes; a way back from one that is long enough is a swing."""
        if not (self._direction < 0 or point.mean <= self._high.mean):
            self._high = point
        if not (self._direction > 0 or point.mean >= self._low.mean):
            self._low = point
        if self._direction >= 0 and self._is_swing(self._high, point):
            self._turned(row, self._high)
            self._direction, self._low = -1, point
        elif self._direction <= 0 and self._is_swing(self._low, point):
            self._turned(row, self._low)
            self._direction, self._high = 1, point

    def _is_swing(self, extreme: _Point, point: _Point) -> bool:
        error = math.sqrt(extreme.error * extreme.error + point.error * point.error)
        away, limits = abs(extreme.mean - point.mean), self._limits
        return away > limits.errors * error and away > limits.share * self._range()

    def _turned(self, row: Row, point: _Point) -> None:
        self._turns.append((row.update, point.mean))
        self._evidence.append(row.evidence(*TAGS) | {"turned_at": spoken(float(f"{point.mean:.4g}"))})

    def _range(self) -> float:
        return (self._spread.at(0.95) or 0.0) - (self._spread.at(0.05) or 0.0)
