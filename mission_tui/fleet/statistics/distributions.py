"""Quantiles of Student's t and of the studentized range, for any number of degrees of freedom.

Both are what a normal value, or the range of several, becomes once it is divided by a standard deviation that was
estimated too; so one integral over that estimate gives either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

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
