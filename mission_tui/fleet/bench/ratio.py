"""Faster, same or slower: what two sets of repeats say of each other, and when they say nothing.

Speeds are compared as ratios, so the arithmetic is done on their logarithms: Student's interval, of the pairs where the
two took turns, because other load comes and goes more slowly than turns do; else with a pooled variance.

Three pairs say little of their own noise: three that happen to be alike look certain. The two halves of each run say
more, so pairs are never taken for more alike than those halves.

Load that stays slows all runs and changes no ratio; load that comes and goes slows one side of a round. So a round is
loaded where one of its runs met more than the calmest run of all did, and is run again. Which rounds count is decided
by their load alone, never by their speeds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from mission_tui.fleet.statistics.intervals import t_quantile

Word = Literal["faster", "same", "slower"]

MARGIN = 0.05
"""A difference within so much of 1 changes no decision."""

_WIDE = 1.25
MORE_PERCENT = 5.0
"""Beyond the calmest run's, of all cores."""
MOST_TIMES = 2
"""So many times the rounds that were asked for are run at most."""

Loads = Sequence[Sequence[float | None]]
"""For each round what other work took during each of its runs, in percent of all cores; None is not known."""


class MedianSpeed(Struct, frozen=True, kw_only=True):
    """Steps per second over the repeats: their median, and the 95 % interval of their mean; None for one repeat."""

    median: float
    lo: float | None = None
    hi: float | None = None


class Ratio(Struct, frozen=True, kw_only=True):
    """Speed of one side over that of the other: the median of the pairs' ratios (the ratio of the medians where
    there are no pairs), and the 95 % interval of their mean.

    `verdict` None: these repeats do not say. `sentence` is the verdict in words.
    """

    ratio: float
    lo: float | None
    hi: float | None
    verdict: Word | None
    sentence: str

    def is_slower_by(self, margin: float) -> bool:
        """Whether it is certainly slower, and by more than the share `margin`."""
        return self.hi is not None and self.hi < 1.0 and self.ratio < 1.0 - margin


def pace_of(rates: Sequence[float]) -> MedianSpeed:
    """What the repeats' steps per second say together. Takes at least one."""
    median = statistics.median(rates)
    if len(rates) < 2:
        return MedianSpeed(median=median)
    lo, hi = _mean_interval(rates)
    return MedianSpeed(median=median, lo=lo, hi=hi)


def noise_of(*drifts: Sequence[float]) -> float:
    """The least variance of a logarithm of a ratio of two runs' speeds, by how differently the runs of each side drift.

    `drifts` are, for each side, logarithms of second halves' speeds over first ones'. A half's noise has half the
    variance of a drift, the mean of two halves a quarter; noise that outlasts a run comes on top.
    """
    return sum(statistics.variance(each) for each in drifts if len(each) > 1) / 4.0


def ratio_of(rates: Sequence[float], against: Sequence[float], *, paired: bool, noise: float = 0.0) -> Ratio:
    """What steps per second `rates` say beside `against`, all above 0; `paired`: each was run beside the one it is
    compared with. `noise` is the least variance that logarithms of their ratios are believed to have.

    Same: the interval contains 1 or lies within 5 % of it. Slower (faster): it lies below (above) 1, and the ratio is
    more than 5 % away. Else no verdict, and none where there are not two repeats of both.
    """
    pairs = [one / other for one, other in zip(rates, against, strict=True)] if paired else []
    ratio = statistics.median(pairs) if paired else statistics.median(rates) / statistics.median(against)
    if min(len(rates), len(against)) < 2:
        sentence = f"no verdict: {ratio:.2f} x the speed, and one repeat has no interval; give --repeat 3"
        return Ratio(ratio=ratio, lo=None, hi=None, verdict=None, sentence=sentence)
    if paired:
        lo, hi = _mean_interval(pairs, noise)
    else:
        lo, hi = _pooled_interval([math.log(rate) for rate in rates], [math.log(rate) for rate in against], noise / 2.0)
    return _judged(ratio, lo, hi)


def ratios_of(rates: Sequence[Sequence[float]], noise: float = 0.0) -> tuple[Ratio, ...]:
    """What each row of steps per second says beside the first one, all rows being of the same rounds; `noise` as above.

    Speeds are compared within rounds, with one noise for all rows, and each interval is made so wide that all of them
    hold together (Bonferroni): the fastest of many looks faster than it is. One round gives no interval.
    """
    first, *others = rates
    if len(first) < 2 or not others:
        return tuple(ratio_of(row, first, paired=True) for row in others)
    logs, rounds = [[math.log(rate) for rate in row] for row in rates], len(first)
    of_round = [statistics.fmean(column) for column in zip(*logs, strict=True)]
    left = [[value - shift for value, shift in zip(row, of_round, strict=True)] for row in logs]
    freedom = len(others) * (rounds - 1)
    pooled = sum((value - statistics.fmean(row)) ** 2 for row in left for value in row) / freedom
    half = t_quantile(1.0 - 0.025 / len(others), freedom) * math.sqrt(max(2.0 * pooled, noise) / rounds)
    found = []
    for row, its in zip(others, logs[1:], strict=True):
        centre = statistics.fmean(its) - statistics.fmean(logs[0])
        ratio = statistics.median(one / other for one, other in zip(row, first, strict=True))
        found.append(_judged(ratio, math.exp(centre - half), math.exp(centre + half)))
    return tuple(found)


def _judged(ratio: float, lo: float, hi: float) -> Ratio:
    verdict = _verdict(ratio, lo, hi)
    figures = f"{ratio:.2f} x the speed, 95 % interval {lo:.2f} to {hi:.2f}"
    if verdict is None:
        sentence = (
            f"no verdict: {figures}; the interval excludes 1, but the median is less than {MARGIN:.0%} away from it"
        )
    elif verdict == "same" and hi / lo > _WIDE:
        sentence = f"same, as far as these repeats can tell: {figures}, which is wide; more or longer repeats say more"
    else:
        sentence = f"{verdict}: {figures}"
    return Ratio(ratio=ratio, lo=lo, hi=hi, verdict=verdict, sentence=sentence)


def _verdict(ratio: float, lo: float, hi: float) -> Word | None:
    if lo <= 1.0 <= hi or (lo >= 1.0 - MARGIN and hi <= 1.0 + MARGIN):
        return "same"
    if hi < 1.0 and ratio < 1.0 - MARGIN:
        return "slower"
    if lo > 1.0 and ratio > 1.0 + MARGIN:
        return "faster"
    return None


def _mean_interval(values: Sequence[float], noise: float = 0.0) -> tuple[float, float]:
    logs = [math.log(value) for value in values]
    variance = max(statistics.variance(logs), noise)
    centre, half = statistics.fmean(logs), t_quantile(0.975, len(logs) - 1) * math.sqrt(variance / len(logs))
    return math.exp(centre - half), math.exp(centre + half)


def _pooled_interval(one: Sequence[float], other: Sequence[float], noise: float) -> tuple[float, float]:
    freedom = len(one) + len(other) - 2
    pooled = ((len(one) - 1) * statistics.variance(one) + (len(other) - 1) * statistics.variance(other)) / freedom
    half = t_quantile(0.975, freedom) * math.sqrt(max(pooled, noise) * (1 / len(one) + 1 / len(other)))
    centre = statistics.fmean(one) - statistics.fmean(other)
    return math.exp(centre - half), math.exp(centre + half)


def order_of(number: int, sides: int) -> tuple[int, ...]:
    """The sides (0 is the preset itself, 1 what it is held against) in their order in round `number`, from 1."""
    forth = tuple(range(sides))
    return forth if number % 2 else forth[::-1]


def is_enough(loads: Loads, repeats: int) -> bool:
    """Whether `repeats` rounds were calm, or `MOST_TIMES` as many were run."""
    return len(_calm(loads)) >= repeats or len(loads) >= MOST_TIMES * repeats


def undisturbed_rounds(loads: Loads, repeats: int) -> tuple[int, ...]:
    """The places of the rounds that count: the calm ones, or all where even so there are not `repeats` of those.

    Of many loaded rounds all together say more than the few least loaded.
    """
    calm = _calm(loads)
    return calm if len(calm) >= repeats else tuple(range(len(loads)))


def _calm(loads: Loads) -> tuple[int, ...]:
    known = [[load for load in each if load is not None] for each in loads]
    limit = min((load for each in known for load in each), default=0.0) + MORE_PERCENT
    return tuple(place for place, each in enumerate(known) if max(each, default=0.0) <= limit)
