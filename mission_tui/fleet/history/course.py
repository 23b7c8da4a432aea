"""A run's return from its first update to its newest in a few equal stretches, its best, and when it reached its goal;
how long it will still take, and when it reaches its goal if it goes on as it did: as ranges.

Stretches hold a power of two of rows each, so that what is past looks the same after every further row. All of it
follows from the rows alone: a scan goes on where it ended, and begins anew where rows were taken back.

What is to come are means over many rows, in which no single row weighs much, so that two updates never disagree wildly.
Where the rows say too little, nothing is said.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from mission_tui.fleet.events.metrics import EVAL_SUCCESS, RETURN, Metric, spoken
from mission_tui.fleet.history.series import Columns
from mission_tui.fleet.specs.quantity import Goal

MOST_STRETCHES = 64
ROLLOUT_SUCCESS = "rollout/success_rate"
"""SB3's share of the newest episodes that said `is_success`."""
WHOLE_WINDOW = 100
"""Episodes that a mean return is of, by SB3's default and by Gymnasium's meaning of solved: that of fewer is luck."""


class Course(Struct, frozen=True):
    """The least and greatest return of every `every` rows, oldest first, the last stretch still open; None is blank."""

    every: int
    low: tuple[Metric | None, ...]
    high: tuple[Metric | None, ...]

    @property
    def middles(self) -> list[float | None]:
        """The middle of each stretch; nan where a value is no number."""
        pairs = zip(self.low, self.high, strict=True)
        return [None if low is None or high is None else (float(low) + float(high)) / 2 for low, high in pairs]


class ValueAtUpdate(Struct, frozen=True):
    """A value, and at the end of which update it was."""

    value: float
    update: int
    timesteps: int


class Moment(Struct, frozen=True):
    """Something that happened to the run after `update` and before the next one, in a word."""

    update: int
    timesteps: int
    word: str


class GoalView(Struct, frozen=True, kw_only=True):
    """What a run is to reach, by its own `run.goal` or by its environment's reward threshold, and how near it is.

    `value` is a mean return, or a share of 0..1 of episodes that succeed; `newest` and `best` are what it has come to,
    `reached` where it first was there. `trend`: whether it comes nearer, and it is there in `low_s` to `high_s` seconds
    if that goes on; "beyond" is not within the budget. It is empty before enough is known, and of a run that stands.
    """

    of: Literal["return", "success"]
    value: float
    source: Literal["run.goal", "environment"]
    newest: float | None = None
    best: float | None = None
    reached: ValueAtUpdate | None = None
    trend: Literal["", "nearer", "beyond", "none"] = ""
    low_s: float | None = None
    high_s: float | None = None

    @property
    def words(self) -> str:
        """`475`, `success 80%`."""
        return Goal(self.of, self.value).words


class _Stretches:
    """Values in at most `MOST_STRETCHES` stretches of equally many, by what the timesteps were at the end of each."""

    def __init__(self) -> None:
        self.every = 1
        self.values = 0
        self.steps: list[int] = []
        self.low: list[Metric | None] = []
        self.high: list[Metric | None] = []

    def put(self, timesteps: int, value: float | None) -> None:
        brief = None if value is None else spoken(float(f"{value:.5g}"))
        if self.values % self.every == 0:
            if len(self.steps) == MOST_STRETCHES:
                self._pair_up()
            self.steps.append(timesteps)
            self.low.append(brief)
            self.high.append(brief)
        else:
            self.steps[-1] = timesteps
            self.low[-1] = _wider(self.low[-1], brief, least=True)
            self.high[-1] = _wider(self.high[-1], brief, least=False)
        self.values += 1

    def _pair_up(self) -> None:
        self.every *= 2
        self.steps = self.steps[1::2]
        self.low = [_wider(one, other, least=True) for one, other in zip(self.low[::2], self.low[1::2], strict=True)]
        self.high = [
            _wider(one, other, least=False) for one, other in zip(self.high[::2], self.high[1::2], strict=True)
        ]

    def newer_half(self) -> tuple[list[float], list[float]]:
        """Timesteps and middles of what is a number in the newer half."""
        begin = len(self.steps) // 2
        steps, middles = [], []
        for at, low, high in zip(self.steps[begin:], self.low[begin:], self.high[begin:], strict=True):
            if isinstance(low, float) and isinstance(high, float):
                steps.append(float(at))
                middles.append((low + high) / 2)
        return steps, middles


class Scan:
    """Goes over rows once. `best` counts means over a whole window where some were; `newest`, `goal_best` and `reached`
    are of the series that the goal is about. `whole`: the rows began with the run's first, and no more will come.
    """

    def __init__(self, goal: Goal | None) -> None:
        self.goal = goal
        self.whole = False
        self.best: ValueAtUpdate | None = None
        self.reached: ValueAtUpdate | None = None
        self.newest: float | None = None
        self.goal_best: float | None = None
        self._tag = RETURN
        self._rows = 0
        self._episodes = 0
        self._settled = False
        self._returns = _Stretches()
        self._aims = _Stretches()

    def forgot(self, rows: int) -> None:
        """The first `rows` of the rows that it went over are not kept any more; it goes on with the next one."""
        self._rows -= rows

    def follow(self, columns: Columns) -> None:
        """Take in the rows of `columns` that are new."""
        goal = self.goal
        if goal is not None and goal.of == "success":
            self._tag = EVAL_SUCCESS if EVAL_SUCCESS in columns.names else ROLLOUT_SUCCESS
        for update, timesteps, value, aimed, ended in columns.rows_from(self._rows, RETURN, self._tag):
            self._rows += 1
            if ended and not self._episodes:  # it says episodes after all, so the rows until now had no whole window
                self._settled = False
            self._episodes += ended
            filled = self._episodes == 0 or self._episodes >= WHOLE_WINDOW
            self._returns.put(timesteps, value)
            if value is not None and math.isfinite(value):
                self._weigh(ValueAtUpdate(value, update, timesteps), filled=filled)
            if goal is not None and aimed is not None and math.isfinite(aimed):
                self._aim(ValueAtUpdate(aimed, update, timesteps), goal, filled=filled or self._tag == EVAL_SUCCESS)

    def _weigh(self, place: ValueAtUpdate, *, filled: bool) -> None:
        if filled and not self._settled:
            self._settled, self.best = True, place
        elif self.best is None or (place.value > self.best.value and filled == self._settled):
            self.best = place

    def _aim(self, place: ValueAtUpdate, goal: Goal, *, filled: bool) -> None:
        self._aims.put(place.timesteps, place.value)
        self.newest = place.value
        self.goal_best = place.value if self.goal_best is None else max(self.goal_best, place.value)
        if self.reached is None and filled and place.value >= goal.value:
            self.reached = place

    @property
    def trend(self) -> tuple[list[float], list[float]]:
        """Timesteps and values of late of what the goal is about."""
        return self._aims.newer_half()

    @property
    def course(self) -> Course | None:
        """The return; None while it is of less than two rows, or was never known."""
        returns = self._returns
        known = returns.values > 1 and any(low is not None for low in returns.low)
        return Course(returns.every, tuple(returns.low), tuple(returns.high)) if known else None


def _wider(one: Metric | None, other: Metric | None, *, least: bool) -> Metric | None:
    """The less or greater of two; what is no number shows."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, str) or isinstance(other, str):
        return one if isinstance(one, str) else other
    return min(one, other) if least else max(one, other)


_WEIGHT = 0.93
"""Of a row against the next: about the last 14 rows decide."""
_FEW = 5
_SIGMAS = 2.0
_LEAST_POINTS = 10
_MOST_DOUBT = 0.5
"""Half of the width of a trend's interval, as a share of it: from where on there is none."""


class StepTime(Struct, frozen=True):
    """Seconds per step of late, and how far the mean of what comes may lie from it, as a share."""

    seconds: float
    doubt: float

    def span(self, steps: float) -> tuple[float, float]:
        """The least and greatest seconds for so many steps."""
        whole = max(0.0, steps) * self.seconds
        return whole * (1 - self.doubt), whole * (1 + self.doubt)


def pace_of(speeds: Sequence[float | None]) -> StepTime | None:
    """The pace after updates with these steps per second, oldest first; None where none is known.

    A row counts for no more than a few times the geometric mean of all but the slowest, so that a stall of one update
    moves little.
    """
    spans = [1 / speed for speed in speeds if speed is not None and math.isfinite(speed) and speed > 0.0]
    if not spans:
        return None
    weights = [_WEIGHT**age for age in range(len(spans) - 1, -1, -1)]
    total = math.fsum(weights)
    usual = sorted(zip(spans, weights, strict=True))[
        : len(spans) - max(1, len(spans) // 20) if len(spans) > 2 else None
    ]
    middle = math.exp(math.fsum(w * math.log(span) for span, w in usual) / math.fsum(w for _, w in usual))
    most = middle * min(8.0, 1.0 + len(spans) / 4)
    spans = [min(span, most) for span in spans]
    mean = math.fsum(w * span for w, span in zip(weights, spans, strict=True)) / total
    squares = math.fsum(w * (span - mean) ** 2 for w, span in zip(weights, spans, strict=True)) / total
    error = math.sqrt(squares * math.fsum(w * w for w in weights)) / total
    doubt = _SIGMAS * error * _inflation([span - mean for span in spans]) / mean
    return StepTime(mean, min(0.6, max(doubt, 0.5 if len(spans) < _FEW else 0.0)))


def steps_to(value: float, steps: Sequence[float], values: Sequence[float]) -> tuple[float, float] | None:
    """The least and greatest number of steps until the straight line through the points is at `value`.

    None where the line is not known to come nearer, or too few points are known to say.
    """
    many = len(values)
    if many < _LEAST_POINTS:
        return None
    x_mean, y_mean = math.fsum(steps) / many, math.fsum(values) / many
    spread = math.fsum((x - x_mean) ** 2 for x in steps)
    if spread <= 0.0:
        return None
    slope = math.fsum((x - x_mean) * (y - y_mean) for x, y in zip(steps, values, strict=True)) / spread
    if slope <= 0.0:
        return None
    left = [y - y_mean - slope * (x - x_mean) for x, y in zip(steps, values, strict=True)]
    error = math.sqrt(math.fsum(it * it for it in left) / (many - 2) / spread) * _inflation(left)
    doubt = _SIGMAS * error / slope
    if doubt > _MOST_DOUBT:
        return None
    missing = max(0.0, value - (y_mean + slope * (steps[-1] - x_mean)))
    return missing / (slope * (1 + doubt)), missing / (slope * (1 - doubt))


def enough_for_trend(values: Sequence[float]) -> bool:
    """Whether a missing trend means that there is none."""
    return len(values) >= _LEAST_POINTS


def _inflation(residuals: Sequence[float]) -> float:
    """By how much neighbours that are alike widen the error of a mean (first-order autocorrelation)."""
    whole = math.fsum(it * it for it in residuals)
    if whole <= 0.0 or len(residuals) < _FEW:
        return 1.0
    alike = math.fsum(a * b for a, b in itertools.pairwise(residuals)) / whole
    alike = min(0.8, max(0.0, alike))
    return math.sqrt((1 + alike) / (1 - alike))
