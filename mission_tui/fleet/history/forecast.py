"""How long a run will still take, and when it reaches its goal if it goes on as it did: as ranges, from its rows alone.

Both are means over many rows, in which no single row weighs much, so that two updates never disagree wildly. Where the
rows say too little, nothing is said.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from msgspec import Struct

WEIGHT = 0.93
"""Of a row against the next: about the last 14 rows decide."""
_FEW = 5
_SIGMAS = 2.0
_LEAST_POINTS = 10
_MOST_DOUBT = 0.5
"""Half of the width of a trend's interval, as a share of it: from where on there is none."""


class Pace(Struct, frozen=True):
    """Seconds per step of late, and how far the mean of what comes may lie from it, as a share."""

    seconds: float
    doubt: float

    def span(self, steps: float) -> tuple[float, float]:
        """The least and greatest seconds for so many steps."""
        whole = max(0.0, steps) * self.seconds
        return whole * (1 - self.doubt), whole * (1 + self.doubt)


def pace_of(speeds: Sequence[float | None]) -> Pace | None:
    """The pace after updates with these steps per second, oldest first; None where none is known.

    A row counts for no more than a few times the geometric mean of all but the slowest, so that a stall of one update
    moves little.
    """
    spans = [1 / speed for speed in speeds if speed is not None and math.isfinite(speed) and speed > 0.0]
    if not spans:
        return None
    weights = [WEIGHT**age for age in range(len(spans) - 1, -1, -1)]
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
    return Pace(mean, min(0.6, max(doubt, 0.5 if len(spans) < _FEW else 0.0)))


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
