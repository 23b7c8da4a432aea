"""Quantiles of Student's t: for any number of degrees of freedom by an expansion, for few and whole ones exactly."""

from __future__ import annotations

import math
import statistics
from functools import lru_cache


def t_quantile(p: float, freedom: float) -> float:
    """Quantile `p` by the expansion of Abramowitz and Stegun 26.7.5; 3 % too small at three degrees of freedom, worse
    below.
    """
    z = statistics.NormalDist().inv_cdf(p)
    first = (z**3 + z) / 4.0
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return z + first / freedom + second / freedom**2 + third / freedom**3


@lru_cache(maxsize=256)
def exact_t_quantile(p: float, freedom: int) -> float:
    """Quantile `p` (above 0.5) for `freedom` of at least 1, by halving; its distribution function is a finite sum
    (Abramowitz and Stegun 26.7.3 and 26.7.4).
    """
    low, high = 0.0, 1.0
    while _central(high, freedom) < 2.0 * p - 1.0:
        high *= 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _central(middle, freedom) < 2.0 * p - 1.0 else (low, middle)
    return (low + high) / 2.0


def _central(t: float, freedom: int) -> float:
    """The probability of lying between -t and t."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2 == 1
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cosine * cosine * (k - 1) / k
    return 2.0 / math.pi * (angle + sine * total) if odd else sine * total
