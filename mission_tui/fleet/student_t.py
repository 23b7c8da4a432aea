"""Quantiles of Student's t for any number of degrees of freedom, by the expansion of Abramowitz and Stegun 26.7.5."""

from __future__ import annotations

import statistics


def t_quantile(p: float, freedom: float) -> float:
    """Quantile `p` of Student's t; 3 % too small at three degrees of freedom, worse below."""
    z = statistics.NormalDist().inv_cdf(p)
    first = (z**3 + z) / 4.0
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return z + first / freedom + second / freedom**2 + third / freedom**3
