"""Which setting of several came out best over its seeds, and which of the others are surely behind it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from mission_tui.fleet.compare.differing import Row
from mission_tui.fleet.compare.spread import contrast_of, spread_of

__all__ = ["Ranked", "is_return", "ranked"]


class Ranked(Struct, frozen=True, kw_only=True):
    """One setting at its place: `cohort` among those of the comparison, `settings` as far as they differ.

    `mean` and `interval` are of the last value of each seed. `behind` is how far it lies behind the first, with its
    95 % interval; `surely`: that interval lies above 0. None where there is nothing to say, or too few seeds to say it.
    """

    place: int
    cohort: int
    settings: dict[str, Any]
    seeds: int
    mean: float | None = None
    interval: tuple[float, float] | None = None
    behind: float | None = None
    behind_interval: tuple[float, float] | None = None
    surely: bool | None = None


def is_return(metric: str) -> bool:
    """Whether more of `metric` is better, which is not known of others."""
    return metric.endswith(("ep_rew_mean", "mean_reward"))


def ranked(finals: Sequence[Sequence[float | None]], firsts: Sequence[int], rows: Sequence[Row]) -> tuple[Ranked, ...]:
    """Settings by the mean of their `finals` (one list per setting, one value per seed), best first, unknown ones last.

    `firsts` are the places in `rows` of one run of each setting.
    """
    known = [[value for value in side if value is not None and math.isfinite(value)] for side in finals]
    means = [statistics.fmean(values) if values else None for values in known]
    order = sorted(range(len(finals)), key=lambda at: (means[at] is None, -(means[at] or 0.0), at))
    found = []
    for place, at in enumerate(order, 1):
        spread, leader = spread_of(finals[at]), order[0]
        contrast = contrast_of(finals[leader], finals[at]) if at != leader else None
        best, mean = means[leader], means[at]
        found.append(
            Ranked(
                place=place,
                cohort=at,
                settings={row.name: row.values[firsts[at]] for row in rows},
                seeds=len(known[at]),
                mean=mean,
                interval=None if spread is None else spread.interval,
                behind=None if at == leader or best is None or mean is None else best - mean,
                behind_interval=None if contrast is None else contrast[1:],
                surely=None if contrast is None else contrast[1] > 0.0,
            )
        )
    return tuple(found)
