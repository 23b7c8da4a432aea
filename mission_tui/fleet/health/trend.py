"""Whether a short series goes somewhere: robust slope, and the test that it is no accident. Pure functions of numbers.

The values are equally spaced and finite; series of fewer than two go nowhere. What comes out of absurd values is
absurd, but nothing raises.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

__all__ = ["change_by_thirds", "lag_one", "mann_kendall", "theil_sen"]

LARGEST_LAG_ONE = 0.99
"""Of a series that repeats itself entirely the variance would be infinite."""


def theil_sen(values: Sequence[float]) -> float:
    """The slope per step: the median of the slopes of all pairs (Theil 1950, Sen 1968).

    Up to 29 % of the values may be anything at all before it follows them.
    """
    count = len(values)
    if count < 2:
        return 0.0
    slopes: list[float] = []
    for distance in range(1, count):
        share = 1.0 / distance
        slopes += [(later - earlier) * share for earlier, later in zip(values, values[distance:], strict=False)]
    return statistics.median(slopes)


def mann_kendall(values: Sequence[float], slope: float) -> float:
    """The z of a monotone trend (Mann 1945, Kendall 1975), with ties and memory taken out of it; positive is up.

    A mean over the last 100 episodes remembers: neighbours agree without any trend. The variance is therefore inflated
    by (1 + rho) / (1 - rho), with rho the lag-one correlation of what is left once `slope` is taken out (the variance
    correction of Yue and Wang 2004); with the trend left in, every trend would explain itself away.
    """
    count = len(values)
    if count < 3:
        return 0.0
    score = 0
    for place, earlier in enumerate(values[:-1], start=1):
        later = values[place:]
        score += sum([value > earlier for value in later]) - sum([value < earlier for value in later])
    variance = count * (count - 1) * (2 * count + 5)
    variance -= sum(ties * (ties - 1) * (2 * ties + 5) for ties in Counter(values).values() if ties > 1)
    if variance <= 0 or score == 0:
        return 0.0
    rho = lag_one([value - slope * place for place, value in enumerate(values)])
    inflation = (1.0 + rho) / (1.0 - rho)
    return (score - math.copysign(1.0, score)) / math.sqrt(variance / 18.0 * inflation)


def lag_one(values: Sequence[float]) -> float:
    """The correlation of neighbours, 0 to 0.99; a negative one counts as none, since it would make trends surer."""
    mean = sum(values) / len(values) if values else 0.0
    rest = [value - mean for value in values]
    power = sum([value * value for value in rest])
    if not 0.0 < power < math.inf:
        return 0.0
    rho = sum([later * earlier for earlier, later in pairwise(rest)]) / power
    return min(LARGEST_LAG_ONE, max(0.0, rho))


def change_by_thirds(values: Sequence[float]) -> float:
    """Median of the last third minus that of the first: a cheap look at a trend, two thirds of its whole change."""
    third = len(values) // 3
    return statistics.median(values[-third:]) - statistics.median(values[:third]) if third else 0.0
