"""What few values say of all: quartiles, quantiles of Student's t and of the studentized range, intervals, and which of
many settings lie behind the best. Every interval and every verdict between runs comes from here; `docs/statistics.md`
says how often they hold. Knows no runs, and loads nothing until it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct


class Quartiles(Struct, frozen=True):
    """The median of `n` values, of `of` that there could be, and the ends of the interquartile range."""

    n: int
    of: int
    median: float
    first: float
    third: float


def quartiles(values: Sequence[float | None]) -> Quartiles | None:
    """Of the finite ones, between neighbours by straight lines (type 7 of Hyndman and Fan 1996, as numpy has it); None
    where there is none.
    """
    known = sorted(value for value in values if value is not None and math.isfinite(value))
    if not known:
        return None

    def at(share: float) -> float:
        place = share * (len(known) - 1)
        below = math.floor(place)
        above = min(below + 1, len(known) - 1)
        return known[below] + (place - below) * (known[above] - known[below])

    return Quartiles(len(known), len(values), at(0.5), at(0.25), at(0.75))
