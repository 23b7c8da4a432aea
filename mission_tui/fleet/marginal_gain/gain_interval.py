"""How much more one row of measurements is than another, as a share with an interval that noise with a memory widens.

Judged again and again as time goes on, an interval is wrong more often than it says; so each look gets its part of the
5 % (Bonferroni). Neighbouring cells are alike on a busy machine, which the variance of a mean must know (Bayley and
Hammersley 1946: for a first-order memory rho it is larger by (1 + rho) / (1 - rho)).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mission_tui.fleet.student_t import t_quantile

__all__ = ["LOOKS", "GainInterval", "gain_interval"]

LOOKS = (8, 16, 32, 64)
"""Cells on each side at which it is judged."""

ERROR = 0.05 / len(LOOKS)
LEAST_MEMORY, MOST_MEMORY = 0.2, 0.9
"""Eight cells cannot show that there is none, so some is always assumed."""


@dataclass(frozen=True, slots=True)
class GainInterval:
    """`after` / `before` - 1 is `share`, and with 95 % certainty, over all looks, it lies from `low` to `high`."""

    before: float
    after: float
    share: float
    low: float
    high: float


def gain_interval(before: Sequence[float], after: Sequence[float]) -> GainInterval | None:
    """The gain of the mean of `after` over that of `before`, three values each or more; None where one of them stood
    still.
    """
    old, new = statistics.fmean(before), statistics.fmean(after)
    if old <= 0.0 or new <= 0.0:
        return None
    memory = _memory(before, after)
    wider = (1.0 + memory) / (1.0 - memory)
    sides = [wider * statistics.variance(side) / len(side) / statistics.fmean(side) ** 2 for side in (before, after)]
    error = math.sqrt(sum(sides))
    half = t_quantile(1.0 - ERROR / 2.0, _freedom(sides, (len(before) / wider, len(after) / wider))) * error
    ratio = new / old
    # By the logarithm, so that "half as fast" and "twice as fast" are equally far from "as before".
    return GainInterval(old, new, ratio - 1.0, ratio * math.exp(-half) - 1.0, ratio * math.exp(half) - 1.0)


def _memory(before: Sequence[float], after: Sequence[float]) -> float:
    """How alike neighbouring cells are, of both sides together; corrected for the bias of short rows (Kendall 1954)."""
    product = spread = 0.0
    for side in (before, after):
        mean = statistics.fmean(side)
        apart = [value / mean - 1.0 for value in side]
        product += sum(one * next_ for one, next_ in pairwise(apart))
        spread += sum(value * value for value in apart)
    cells = (len(before) + len(after)) / 2.0
    seen = product / spread if spread > 0.0 else 0.0
    corrected = (seen + 1.0 / cells) / (1.0 - 4.0 / cells) if cells > 4.0 else MOST_MEMORY
    return min(MOST_MEMORY, max(LEAST_MEMORY, corrected))


def _freedom(variances: Sequence[float], cells: Sequence[float]) -> float:
    """Degrees of freedom of the difference of two means (Welch 1947), with as many cells as count."""
    total = sum(variances)
    if total <= 0.0:
        return sum(cells)
    parts = sum(part * part / max(1.0, count - 1.0) for part, count in zip(variances, cells, strict=True))
    return max(2.5, total * total / parts)
