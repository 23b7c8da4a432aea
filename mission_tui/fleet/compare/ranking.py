"""Which setting of several came out best over its seeds, which of the others lie behind it, how far seeds lie apart.

An interval is given only where it means something, and all of one table hold together: `docs/statistics.md` says how
often they do.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from mission_tui.fleet.compare.differing import Row
from mission_tui.fleet.statistics import intervals, quartiles

Middle = Literal["mean", "iqm"]
"""By what settings are ranked: the interquartile mean where all of them have seeds enough for it."""


class Ranked(Struct, frozen=True, kw_only=True):
    """One setting at its place: `cohort` among those of the comparison, `settings` as far as they differ.

    `mean` and `iqm` (interquartile mean, from ten seeds on) are over the seeds' values at the common budget, each with
    its 95 % interval, and `median` is of the same values, as the row of a group in the list has one. `behind` is how
    far its middle lies behind the first's, with an interval that holds together with those of all other settings;
    `is_behind`: that lies above 0. `improvement` is the probability that a seed of the
    first comes out above one of this (ties by half). None where there is nothing to say, or too few seeds to say it.
    """

    place: int
    cohort: int
    settings: dict[str, Any]
    seeds: int
    mean: float | None = None
    interval: tuple[float, float] | None = None
    iqm: float | None = None
    iqm_interval: tuple[float, float] | None = None
    behind: float | None = None
    behind_interval: tuple[float, float] | None = None
    is_behind: bool | None = None
    improvement: float | None = None
    median: float | None = None


class Spread(Struct, frozen=True, kw_only=True):
    """Over `n` runs that have the value, of `of`: median, first and third quartile, mean, least and greatest.

    `interval` is Student's 95 % interval of the mean, None below three seeds and where all seeds have the same value;
    `iqm` and `iqm_interval` are the interquartile mean and its bootstrap interval, from ten seeds on.
    """

    n: int
    of: int
    median: float
    mean: float
    low: float
    high: float
    interval: tuple[float, float] | None = None
    quartiles: tuple[float, float] | None = None
    iqm: float | None = None
    iqm_interval: tuple[float, float] | None = None


class Contrast(Struct, frozen=True, kw_only=True):
    """The mean of `measure` over the runs of `group` less that over the runs of `against`, with its 95 % interval,
    which holds together with all others of the comparison.

    `sure`: the interval does not contain 0.
    """

    group: str
    against: str
    measure: str
    difference: float
    interval: tuple[float, float]
    sure: bool


def is_return(metric: str) -> bool:
    """Whether more of `metric` is better, which is not known of others."""
    return metric.endswith(("ep_rew_mean", "mean_reward"))


def ranked_by(values: Sequence[Sequence[float | None]]) -> Middle:
    """By what settings with these `values` (one list per setting, one value per seed) are ranked."""
    return "iqm" if all(_whole(intervals.iqm_estimate, side) is not None for side in values) else "mean"


def ranked(values: Sequence[Sequence[float | None]], firsts: Sequence[int], rows: Sequence[Row]) -> tuple[Ranked, ...]:
    """Settings by the middle of their `values` (one list per setting, one value per seed), best first, unknown last.

    `firsts` are the places in `rows` of one run of each setting.
    """
    known, by_iqm = [intervals.finite(side) for side in values], ranked_by(values) == "iqm"
    means = [_whole(intervals.mean_estimate, side) for side in values]
    estimates = [_whole(intervals.iqm_estimate, side) for side in values] if by_iqm else means
    middles = [(intervals.interquartile_mean if by_iqm else statistics.fmean)(side) if side else None for side in known]
    order = sorted(range(len(values)), key=lambda at: (middles[at] is None, -(middles[at] or 0.0), at))
    leader = order[0]
    # The highest is the leader, unless that has too few seeds: then nobody is known to be behind it.
    behind = intervals.behind_best(estimates) if estimates[leader] is not None else (None,) * len(values)
    found = []
    for place, at in enumerate(order, 1):
        best, middle, mean, iqm = middles[leader], middles[at], means[at], _whole(intervals.iqm_estimate, values[at])
        ends = behind[at]
        found.append(
            Ranked(
                place=place,
                cohort=at,
                settings={row.name: row.values[firsts[at]] for row in rows},
                seeds=len(known[at]),
                mean=statistics.fmean(known[at]) if known[at] else None,
                interval=None if mean is None else mean.interval,
                iqm=None if iqm is None else iqm.middle,
                iqm_interval=None if iqm is None else iqm.interval,
                behind=None if at == leader or best is None or middle is None else best - middle,
                behind_interval=ends,
                is_behind=None if ends is None else ends[0] > 0.0,
                improvement=None if at == leader else intervals.probability_of_improvement(known[leader], known[at]),
                median=statistics.median(known[at]) if known[at] else None,
            )
        )
    return tuple(found)


def spread_of(values: Sequence[float | None]) -> Spread | None:
    """The spread of what is known of `values`; None where nothing is."""
    middle = quartiles(values)
    if middle is None:
        return None
    known = sorted(intervals.finite(values))
    mean, iqm = _whole(intervals.mean_estimate, values), _whole(intervals.iqm_estimate, values)
    return Spread(
        n=middle.n,
        of=middle.of,
        median=middle.median,
        quartiles=(middle.first, middle.third),
        mean=statistics.fmean(known),
        low=known[0],
        high=known[-1],
        interval=None if mean is None else mean.interval,
        iqm=None if iqm is None else iqm.middle,
        iqm_interval=None if iqm is None else iqm.interval,
    )


def whole_mean(values: Sequence[float | None]) -> intervals.Estimate | None:
    """The mean of `values`; None where some are not known, or they are too few."""
    return _whole(intervals.mean_estimate, values)


def _whole(estimate: Any, values: Sequence[float | None]) -> intervals.Estimate | None:
    """Where some have no value the others are not a sample of all: those that got there are the better ones."""
    known = intervals.finite(values)
    found: intervals.Estimate | None = estimate(known) if len(known) == len(values) else None
    return found
