"""Theil-Sen and Mann-Kendall: known answers, robustness, and trends told from memory."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mission_tui.fleet.health.rules.stall import change_by_thirds, lag_one, mann_kendall, theil_sen

finite = st.floats(allow_nan=False, allow_infinity=False)


def wandering(seed: int, memory: float, slope: float = 0.0, count: int = 50) -> list[float]:
    """A series whose neighbours are correlated by `memory`, on a line of `slope` per step, with noise of 1."""
    dice, level = random.Random(seed), 0.0
    values: list[float] = []
    for place in range(count):
        level = memory * level + dice.gauss(0.0, (1.0 - memory * memory) ** 0.5)
        values.append(slope * place + level)
    return values


def test_the_slope_of_a_line_is_exact() -> None:
    """A straight line has its own slope, up or down."""
    assert theil_sen([3.0 + 0.5 * place for place in range(20)]) == pytest.approx(0.5)
    assert theil_sen([-2.0 * place for place in range(21)]) == pytest.approx(-2.0)


def test_a_quarter_of_outliers_does_not_turn_the_slope() -> None:
    """12 of 50 values are absurd; least squares would say -2,000, the median of slopes still says about 1."""
    values = [float(place) for place in range(50)]
    values[38:] = [-1e5] * 12
    assert 0.8 < theil_sen(values) < 1.01


def test_mann_kendall_has_the_textbook_value() -> None:
    """Ten rising values: S = 45, variance 125, z = 44 / sqrt(125); falling ones the same below zero."""
    rising = [float(place) for place in range(10)]
    assert mann_kendall(rising, 1.0) == pytest.approx(44 / 125**0.5)
    assert mann_kendall(rising[::-1], -1.0) == pytest.approx(-44 / 125**0.5)


def test_ties_are_taken_out_of_the_variance() -> None:
    """Of [1, 1, 2, 2, 3] S is 8 and the variance (5*4*15 - 2*(2*1*9)) / 18 = 14.67; no memory."""
    assert mann_kendall([1.0, 1.0, 2.0, 2.0, 3.0], 0.5) == pytest.approx(7 / (264 / 18) ** 0.5)
    assert mann_kendall([2.0] * 30, 0.0) == 0.0


def test_memory_alone_is_rarely_called_a_trend() -> None:
    """With neighbours correlated by 0.8 at most 10 of 200 series pass z > 2.33; without the correction 29 do."""
    series = [wandering(seed, memory=0.8) for seed in range(200)]
    corrected = [mann_kendall(values, theil_sen(values)) for values in series]
    assert sum(z > 2.33 for z in corrected) <= 10
    naive = [z * ((1 + rho) / (1 - rho)) ** 0.5 for z, rho in zip(corrected, map(rho_of, series), strict=True)]
    assert sum(z > 2.33 for z in naive) >= 25


def rho_of(values: list[float]) -> float:
    """The memory that `mann_kendall` corrects for."""
    slope = theil_sen(values)
    return lag_one([value - slope * place for place, value in enumerate(values)])


def test_a_trend_is_found_under_memory() -> None:
    """The same memory on a line that rises by 6 sigmas over the series: 9 of 10 are found."""
    series = [wandering(seed, memory=0.6, slope=0.12) for seed in range(100)]
    assert sum(mann_kendall(values, theil_sen(values)) > 2.33 for values in series) >= 90


def test_the_trend_itself_is_not_taken_for_memory() -> None:
    """A clean line has a lag-one correlation near one, and none once its slope is out of it."""
    line = [float(place) for place in range(50)]
    assert lag_one(line) > 0.9
    assert mann_kendall(line, 1.0) > 10.0


def test_the_cheap_look_sees_two_thirds() -> None:
    """Of a line that changes by 48 over 49 values the thirds differ by about 32; too short a series by nothing."""
    assert change_by_thirds([float(place) for place in range(49)]) == pytest.approx(33.0, abs=1.0)
    assert change_by_thirds([1.0, 5.0]) == 0.0


@given(st.lists(finite, max_size=60))
def test_no_finite_series_raises(values: list[float]) -> None:
    """Overflow included; short series go nowhere."""
    slope = theil_sen(values)
    mann_kendall(values, slope)
    change_by_thirds(values)
    if len(values) < 2:
        assert slope == 0.0
