"""Which setting of several came out best over its seeds, and which of the others are surely behind it: how far seeds
lie apart, how sure their mean is, and whether two settings differ. An interval is only given where it means something.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from itertools import product
from typing import Any

from msgspec import Struct

from mission_tui.fleet.compare.differing import Row
from mission_tui.fleet.quartiles import quartiles

LEAST_SEEDS = 3
"""Below this a bootstrap says nothing: resamples of two runs are those two runs and their mean."""

_SHARE = 0.95
_EXACT = 6
_RESAMPLES = 10_000


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


class Spread(Struct, frozen=True, kw_only=True):
    """Over `n` runs that have the value, of `of`: median, first and third quartile, mean, least and greatest.

    `interval` is the 95 % percentile-bootstrap interval of the mean; None below three seeds.
    """

    n: int
    of: int
    median: float
    mean: float
    low: float
    high: float
    interval: tuple[float, float] | None = None
    quartiles: tuple[float, float] | None = None


class Contrast(Struct, frozen=True, kw_only=True):
    """The mean of `measure` over the runs of `group` less that over the runs of `against`, with its 95 % interval.

    `sure`: the interval does not contain 0.
    """

    group: str
    against: str
    measure: str
    difference: float
    interval: tuple[float, float]
    sure: bool


def spread_of(values: Sequence[float | None]) -> Spread | None:
    """The spread of what is known of `values`; None where nothing is."""
    middle = quartiles(values)
    if middle is None:
        return None
    known = sorted(value for value in values if value is not None and math.isfinite(value))
    whole = len(known) == len(values)
    return Spread(
        n=middle.n,
        of=middle.of,
        median=middle.median,
        quartiles=(middle.first, middle.third),
        mean=statistics.fmean(known),
        low=known[0],
        high=known[-1],
        # Where some have no value the others are not a sample of all: those that got there are the better ones.
        interval=_interval(known) if whole and len(known) >= LEAST_SEEDS else None,
    )


def contrast_of(values: Sequence[float | None], against: Sequence[float | None]) -> tuple[float, float, float] | None:
    """The difference of the means and the ends of its interval; None unless both have three values or more, and all."""
    sides = [[value for value in side if value is not None and math.isfinite(value)] for side in (values, against)]
    if any(len(side) != len(given) for side, given in zip(sides, (values, against), strict=True)):
        return None
    if min(map(len, sides)) < LEAST_SEEDS:
        return None
    draws = random.Random(len(values) + 1000 * len(against))  # noqa: S311 - statistics, not secrecy
    means = [[statistics.fmean(draws.choices(side, k=len(side))) for _ in range(_RESAMPLES)] for side in sides]
    apart = sorted(one - other for one, other in zip(*means, strict=True))
    return statistics.fmean(sides[0]) - statistics.fmean(sides[1]), *_ends(apart)


def _interval(known: Sequence[float]) -> tuple[float, float]:
    n = len(known)
    if n <= _EXACT:
        means = sorted(sum(draw) / n for draw in product(known, repeat=n))
    else:
        # Always the same draws, so that a report made twice says the same.
        draws = random.Random(n)  # noqa: S311 - statistics, not secrecy
        means = sorted(statistics.fmean(draws.choices(known, k=n)) for _ in range(_RESAMPLES))
    return _ends(means)


def _ends(ordered: Sequence[float]) -> tuple[float, float]:
    tail = (1 - _SHARE) / 2
    return ordered[math.floor(tail * (len(ordered) - 1))], ordered[math.ceil((1 - tail) * (len(ordered) - 1))]
