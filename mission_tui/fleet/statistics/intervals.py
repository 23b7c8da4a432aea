"""Confidence intervals: how sure the middle of a few values is, and whether two or many of them differ.

Below ten values the middle is the mean with Student's interval; from ten on the interquartile mean with a bootstrap
interval stands beside it (Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice").
Runs of one comparison train one task, so there is one stratum to resample. Two middles differ by Welch's interval;
which of many lie behind the best is asked of all pairs at once (Games and Howell 1976), because the best was chosen
after looking. `docs/statistics.md` has what was simulated.

The quantiles for it, of Student's t and of the studentized range, are what a normal value, or the range of several,
becomes once it is divided by a standard deviation that was estimated too: one integral over that estimate gives either.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter

from msgspec import Struct, structs

LEAST_VALUES = 3
"""Fewer have no interval that says anything: that of two is 25 times as wide as they are apart."""
LEAST_FOR_IQM = 10
"""From so many on the interval of the interquartile mean holds as often as it says (`docs/statistics.md`)."""

LEVEL = 0.95
_RESAMPLES = 2000
_NORMAL = statistics.NormalDist()

Interval = tuple[float, float]


class Estimate(Struct, frozen=True):
    """A middle, the square of its standard error, how many degrees of freedom that has, and the middle's interval.

    `interval` is None where all values are the same: how far others would lie apart is not known from these.
    """

    middle: float
    squared_error: float
    freedom: float
    interval: Interval | None


def mean_estimate(values: Sequence[float]) -> Estimate | None:
    """The mean of `values` with Student's interval; None below `LEAST_VALUES`."""
    if len(values) < LEAST_VALUES:
        return None
    squared, ends = statistics.variance(values) / len(values), student_interval(values)
    return Estimate(statistics.fmean(values), squared, len(values) - 1.0, ends if squared > 0.0 else None)


def student_interval(values: Sequence[float]) -> Interval:
    """The ends of Student's interval of the mean of two values or more."""
    error = math.sqrt(statistics.variance(values) / len(values))
    mean, half = statistics.fmean(values), t_quantile(0.5 + LEVEL / 2.0, len(values) - 1.0) * error
    return mean - half, mean + half


def share_interval(wins: int, of: int) -> Interval:
    """The ends of Wilson's interval (1927) of a share: `wins` of one try or more. It never leaves 0 to 1, and of few
    tries that all went well it says how little that is: 5 of 5 may be 57 % of many.
    """
    z, share = _NORMAL.inv_cdf(0.5 + LEVEL / 2.0), wins / of
    middle = (share + z * z / (2 * of)) / (1.0 + z * z / of)
    half = z * math.sqrt(share * (1.0 - share) / of + z * z / (4 * of * of)) / (1.0 + z * z / of)
    # The end itself where all or none were won, which rounding misses by a little.
    return (0.0 if wins == 0 else middle - half), (1.0 if wins == of else middle + half)


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean without the lowest and the highest quarter of `values` (whole ones, as scipy's `trim_mean`)."""
    return _middle_half(sorted(values))


def iqm_estimate(values: Sequence[float]) -> Estimate | None:
    """The interquartile mean with its bootstrap interval; None below `LEAST_FOR_IQM`.

    Percentiles are further out than their names say, by as much as Student's quantile is beyond the normal one, since
    resamples scatter less than samples do (after Hesterberg 2015). The same values give the same interval.
    """
    count = len(values)
    if count < LEAST_FOR_IQM:
        return None
    drawn = _resampled_middles(tuple(sorted(values)))
    freedom = float(count - 1)
    tail = _NORMAL.cdf(-t_quantile(0.5 + LEVEL / 2.0, freedom))
    low, high = (drawn[round(share * (len(drawn) - 1))] for share in (tail, 1.0 - tail))
    squared = _variance(drawn) * count / (count - 1)
    return Estimate(interquartile_mean(values), squared, freedom, (low, high) if low < high else None)


def difference(one: Estimate | None, other: Estimate | None, questions: int = 1) -> Interval | None:
    """The ends of Welch's interval for `one` less `other`, one of as many as `questions` that are to hold together
    (Bonferroni). None where there is nothing to say: no estimate, or neither side's values differ.
    """
    if one is None or other is None or one.squared_error + other.squared_error <= 0.0:
        return None
    error, freedom = _welch(one, other)
    half = t_quantile(1.0 - (1.0 - LEVEL) / 2.0 / questions, freedom) * error
    apart = one.middle - other.middle
    return apart - half, apart + half


def behind_best(estimates: Sequence[Estimate | None]) -> tuple[Interval | None, ...]:
    """`behind` the one with the highest middle."""
    known = [at for at, it in enumerate(estimates) if it is not None]
    best = max(known, key=lambda at: _middle_of(estimates[at]), default=None)
    return (None,) * len(estimates) if best is None else behind(estimates, best)


def behind(estimates: Sequence[Estimate | None], place: int) -> tuple[Interval | None, ...]:
    """For each of many the ends of the interval of how far it lies behind the one at `place`.

    They hold together in 95 % of comparisons, whichever `place` is: among equals one is found to be behind in at most
    5 %. None for the one at `place` itself and where there is nothing to say: no estimate, or neither side's values
    differ.
    """
    known = _with_variance_floor(estimates)
    first, count = known[place], sum(it is not None for it in known)
    return tuple(
        None if it is None or first is None or at == place else _behind(first, it, count) for at, it in enumerate(known)
    )


def _middle_of(estimate: Estimate | None) -> float:
    return -math.inf if estimate is None else estimate.middle


def _behind(best: Estimate, other: Estimate, count: int) -> Interval | None:
    if best.squared_error + other.squared_error <= 0.0:
        return None
    error, freedom = _welch(best, other)
    # Rounded down, since with the fraction the error is a little above 5 % for many settings of four or five seeds.
    half = studentized_range_quantile(LEVEL, count, math.floor(freedom)) / math.sqrt(2.0) * error
    apart = best.middle - other.middle
    return apart - half, apart + half


def _with_variance_floor(estimates: Sequence[Estimate | None]) -> list[Estimate | None]:
    """`estimates` with the variance of none below the median of all: three seeds that all learned, or all did not,
    lie close together by chance, and among many settings some always do.
    """
    known = [it for it in estimates if it is not None]
    usual = statistics.median(it.squared_error * (it.freedom + 1.0) for it in known) if known else 0.0
    return [
        None if it is None else structs.replace(it, squared_error=max(it.squared_error, usual / (it.freedom + 1.0)))
        for it in estimates
    ]


def probability_of_improvement(values: Sequence[float], against: Sequence[float]) -> float | None:
    """The share of pairs in which one of `values` is above one of `against`, ties by half (Mann and Whitney's U); None
    below `LEAST_VALUES` of either.
    """
    if min(len(values), len(against)) < LEAST_VALUES:
        return None
    above = sum((one > other) + 0.5 * (one == other) for one in values for other in against)
    return above / (len(values) * len(against))


def _welch(one: Estimate, other: Estimate) -> tuple[float, float]:
    """The standard error of a difference, and its degrees of freedom (Welch 1947)."""
    total = one.squared_error + other.squared_error
    # Of shares, as squares of what is of the order of 1e-90 or 1e90 are no floats.
    parts = sum((it.squared_error / total) ** 2 / it.freedom for it in (one, other))
    return math.sqrt(total), 1.0 / parts


@lru_cache(maxsize=256)
def _resampled_middles(ordered: tuple[float, ...]) -> list[float]:
    return sorted(statistics.fmean(middle(ordered)) for middle in _middles(len(ordered)))


@lru_cache(maxsize=4)
def _middles(count: int) -> list[itemgetter[tuple[float, ...]]]:
    """What takes the middle half of each resample out of `count` values in order; the same draws for all of them."""
    draws, places = random.Random(count), range(count)  # noqa: S311 - statistics, not secrecy
    return [itemgetter(*sorted(draws.choices(places, k=count))[_half(count)]) for _ in range(_RESAMPLES)]


def _variance(values: Sequence[float]) -> float:
    """As `statistics.variance`, but in floats: with its fractions it takes longer than all resamples together."""
    mean = statistics.fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _middle_half(ordered: Sequence[float]) -> float:
    return statistics.fmean(ordered[_half(len(ordered))])


def _half(count: int) -> slice:
    return slice(count // 4, count - count // 4)


def finite(values: Iterable[float | None]) -> list[float]:
    """Those that are known and are numbers."""
    return [value for value in values if value is not None and math.isfinite(value)]


_POINTS = 160
_NEARLY_NORMAL = 4000.0
"""From so many degrees of freedom on the estimate is as good as known."""
_STEP, _WIDEST = 0.02, 12.0
"""The grid on which the range of normal values is tabulated: to 12 standard deviations, beyond which none lies."""


@lru_cache(maxsize=1024)
def t_quantile(p: float, freedom: float) -> float:
    """Quantile `p` (above 0.5) of Student's t with `freedom` of at least 1."""

    def central(t: float) -> float:
        return _over_estimates(lambda spread: math.erf(t * spread / math.sqrt(2.0)), freedom)

    return _where(central, 2.0 * p - 1.0)


@lru_cache(maxsize=1024)
def studentized_range_quantile(p: float, count: int, freedom: float) -> float:
    """Quantile `p` of the range of `count` (2 or more) standard normal values over an independent estimate of their
    standard deviation with `freedom` of at least 1 (Tukey 1949; Copenhaver and Holland 1988 for its integral).
    """
    table = _range_table(count)

    def below(q: float) -> float:
        return _over_estimates(lambda spread: _looked_up(table, q * spread), freedom)

    return _where(below, p)


def _over_estimates(probability: Callable[[float], float], freedom: float) -> float:
    """The mean of `probability` over the estimate of a standard deviation of 1, a chi of `freedom` over its root.

    On the logarithm of the estimate the density is smooth and ends by itself, where the trapezoidal rule is exact to
    many digits.
    """
    if freedom >= _NEARLY_NORMAL:
        return probability(1.0)
    width = 9.0 / math.sqrt(2.0 * freedom)
    low, high = -width - 30.0 / freedom, min(width, 3.0)
    step = (high - low) / _POINTS
    level = 0.5 * freedom * math.log(0.5 * freedom) - math.lgamma(0.5 * freedom) + math.log(2.0)
    places = (low + step * at for at in range(_POINTS + 1))
    return step * math.fsum(
        math.exp(level + freedom * x - 0.5 * freedom * math.exp(2.0 * x)) * probability(math.exp(x)) for x in places
    )


@lru_cache(maxsize=128)
def _range_table(count: int) -> tuple[float, ...]:
    """The probability that the range of `count` normal values is at most 0, `_STEP`, 2 `_STEP`, ..."""
    step = 0.1
    places = [-8.0 + step * at for at in range(161)]
    density = [math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) for z in places]
    half = [math.erf(z / math.sqrt(2.0)) for z in places]

    def at_most(width: float) -> float:
        above = (math.erf((z + width) / math.sqrt(2.0)) for z in places)
        parts = zip(density, half, above, strict=True)
        return count * step * math.fsum(d * (0.5 * (top - bottom)) ** (count - 1) for d, bottom, top in parts)

    return tuple(min(1.0, at_most(_STEP * at)) for at in range(round(_WIDEST / _STEP) + 1))


def _looked_up(table: tuple[float, ...], width: float) -> float:
    place = width / _STEP
    if place >= len(table) - 1:
        return 1.0
    before = int(place)
    return table[before] + (place - before) * (table[before + 1] - table[before])


def _where(share: Callable[[float], float], wanted: float) -> float:
    """Where the rising `share` is `wanted`, to ten digits."""
    low, high = 0.0, 2.0
    while share(high) < wanted:
        low, high = high, 2.0 * high
    while high - low > 1e-10 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(middle) < wanted else (low, middle)
    return 0.5 * (low + high)
