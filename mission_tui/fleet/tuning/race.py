"""Who of several candidates is surely slower than the fastest, after rounds in which each was probed once.

Load that comes and goes slows a whole round, so speeds are compared within rounds: on logarithms, with the two-way
model "candidate plus round plus noise" and one noise for all. With so few probes a lucky calm would look like
certainty, so noise is never taken for less than 2 %; and each comparison has its part of the 5 % (Bonferroni).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from mission_tui.fleet.student_t import t_quantile

__all__ = ["BETTER", "LEAST_FREEDOM", "surely_slower", "winner"]

BETTER = 1.03
"""What stands is left for something that looks faster by so much; the last word have the fresh pairs."""
LEAST_NOISE = 0.02
LEAST_FREEDOM = 3
"""Below, an interval is so wide that it says nothing, and its quantile is only roughly known."""
ERROR = 0.05


def surely_slower(rates: Sequence[Sequence[float]], looks: int) -> tuple[int, ...]:
    """The places of candidates that are surely slower than the leader, if this is one of `looks` looks in all.

    `rates` has a row for each candidate with a speed above 0 for each round, all rows equally long.
    """
    count, rounds = len(rates), len(rates[0]) if rates else 0
    freedom = (count - 1) * (rounds - 1)
    if freedom < LEAST_FREEDOM:
        return ()
    logs = [[math.log(rate) for rate in row] for row in rates]
    means = [statistics.fmean(row) for row in logs]
    noise = max(LEAST_NOISE, math.sqrt(_left_over(logs, means) / freedom))
    quantile = t_quantile(1.0 - ERROR / 2.0 / (looks * (count - 1)), freedom)
    margin = quantile * noise * math.sqrt(2.0 / rounds)
    best = max(means)
    return tuple(place for place, mean in enumerate(means) if mean + margin < best)


def winner(rates: Sequence[Sequence[float]]) -> int:
    """The place of the candidate to go on with; the first one stands unless another looks faster by 3 %."""
    means = [statistics.fmean(math.log(rate) for rate in row) for row in rates]
    best = max(range(len(means)), key=means.__getitem__)
    return best if means[best] - means[0] >= math.log(BETTER) else 0


def _left_over(logs: Sequence[Sequence[float]], means: Sequence[float]) -> float:
    """The sum of squares that neither candidate nor round explains."""
    whole = statistics.fmean(means)
    of_round = [statistics.fmean(column) - whole for column in zip(*logs, strict=True)]
    return sum(
        (value - mean - shift) ** 2
        for row, mean in zip(logs, means, strict=True)
        for value, shift in zip(row, of_round, strict=True)
    )
