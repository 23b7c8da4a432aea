"""Intervals of few seeds: by the tables of textbooks, and held against what they promise on known returns."""

from __future__ import annotations

import random

import pytest

from benchmarks.calibration import Shape, covered, falsely_behind, found_behind, iqm_interval, mean_interval
from mission_tui.fleet.statistics.intervals import (
    behind_best,
    difference,
    interquartile_mean,
    iqm_estimate,
    mean_estimate,
    probability_of_improvement,
    studentized_range_quantile,
    t_quantile,
)

NORMAL = Shape("normal", lambda dice: dice.gauss(0.0, 1.0), 0.0, 0.0, 1.0)
LEARNS_OR_NOT = Shape(
    "learns or not",
    lambda dice: dice.gauss(500.0, 20.0) if dice.random() < 0.7 else dice.gauss(200.0, 40.0),
    410.0,
    0.0,
    140.0,
)


@pytest.mark.parametrize(
    ("freedom", "exact"),
    [(1, 12.7062), (2, 4.3027), (2.5, 3.5747), (3, 3.1824), (15, 2.1314), (100, 1.9840), (1e6, 1.9600)],
)
def test_quantiles_are_students(freedom: float, exact: float) -> None:
    """Also for a fraction of a degree of freedom, as Welch's are."""
    assert t_quantile(0.975, freedom) == pytest.approx(exact, abs=2e-4)


@pytest.mark.parametrize(
    ("count", "freedom", "exact"), [(3, 2, 8.331), (4, 8, 4.529), (8, 4, 7.346), (8, 16, 4.896), (20, 10, 6.467)]
)
def test_ranges_are_those_of_the_tables(count: int, freedom: int, exact: float) -> None:
    """Tukey's studentized range; of two it is Student's t times the root of two."""
    assert studentized_range_quantile(0.95, count, freedom) == pytest.approx(exact, abs=2e-3)
    assert studentized_range_quantile(0.95, 2, freedom) == pytest.approx(2**0.5 * t_quantile(0.975, freedom), rel=1e-3)


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_an_interval_of_the_mean_holds_as_often_as_it_says(seeds: int) -> None:
    """Between 93 and 97 % of 3,000 draws, where a percentile bootstrap holds in 75 to 90 %."""
    assert 0.93 <= covered(NORMAL, seeds, 3000, mean_interval) <= 0.97


@pytest.mark.slow
def test_an_interval_of_the_interquartile_mean_holds_as_often_as_it_says() -> None:
    """Of ten seeds, in 93 to 97 % of draws."""
    assert 0.93 <= covered(NORMAL, 10, 300, iqm_interval) <= 0.97


@pytest.mark.parametrize("shape", [NORMAL, LEARNS_OR_NOT], ids=lambda shape: shape.name)
@pytest.mark.parametrize("seeds", [3, 5])
def test_among_eight_equals_hardly_any_is_called_behind(shape: Shape, seeds: int) -> None:
    """In at most 5 % of comparisons, where each against the best alone would be wrong in 82 %."""
    assert falsely_behind(shape, 8, seeds, 1000) <= 0.05


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("shape", [NORMAL, LEARNS_OR_NOT], ids=lambda shape: shape.name)
def test_among_eight_equals_of_ten_seeds_hardly_any_is_called_behind(shape: Shape) -> None:
    """From ten seeds on it is the interquartile mean that is compared, by a bootstrap: docs/statistics.md has 0.8 %."""
    assert falsely_behind(shape, 8, 10, 160) <= 0.03


def test_what_is_far_better_is_found() -> None:
    """Five seeds of four settings, one better by four standard deviations: the others are called behind."""
    assert found_behind(NORMAL, 4, 5, 4.0, 300) >= 0.95


def test_seeds_that_all_ended_alike_say_nothing_of_others() -> None:
    """No interval of width 0; beside a setting whose seeds differ they are judged by its scatter."""
    same, spread = mean_estimate([500.0] * 3), mean_estimate([10.0, 12.0, 14.0])
    assert same is not None
    assert same.interval is None
    assert behind_best([same, same]) == (None, None)
    _, ends = behind_best([same, spread])
    assert ends is not None
    assert ends[0] > 400.0
    assert difference(same, same) is None


def test_many_questions_have_wider_intervals_than_one() -> None:
    """Each has its part of the 5 %."""
    one, other = mean_estimate([1.0, 2.0, 3.0]), mean_estimate([5.0, 7.0, 6.0])
    alone, together = difference(other, one), difference(other, one, 8)
    assert alone is not None
    assert together is not None
    assert together[0] < alone[0] < 4.0 < alone[1] < together[1]


def test_the_interquartile_mean_leaves_out_whole_quarters() -> None:
    """Of ten values two on each side; below ten there is no interval, and the same values give the same one."""
    values = [1000.0, *(float(n) for n in range(9))]
    assert interquartile_mean(values) == 4.5
    assert iqm_estimate(values[:9]) is None
    assert iqm_estimate(values) == iqm_estimate(sorted(values))


def test_ties_are_half_an_improvement() -> None:
    """Of nine pairs four are above and one is even; two seeds of a side are too few to say."""
    assert probability_of_improvement([2.0, 3.0, 4.0], [1.0, 3.0, 5.0]) == pytest.approx(4.5 / 9)
    assert probability_of_improvement([2.0, 3.0], [1.0, 3.0, 5.0]) is None


def test_no_order_of_seeds_changes_a_figure() -> None:
    """What a run is called, or where it stands in a list, is no evidence."""
    values = [random.Random(4).gauss(0.0, 1.0) for _ in range(12)]
    assert iqm_estimate(values) == iqm_estimate(values[::-1])


@pytest.mark.parametrize("unit", [1e-150, 1e-90, 1e-9, 1e90])
def test_an_interval_has_the_unit_of_its_values(unit: float) -> None:
    """A loss that has exploded, or a KL of nothing, is compared as anything else."""
    one, other = ([unit * value for value in values] for values in ((1.0, 2.0, 3.5), (4.0, 5.0, 7.5)))
    ends, behind = (
        difference(mean_estimate(one), mean_estimate(other)),
        behind_best(list(map(mean_estimate, (one, other)))),
    )
    assert ends is not None
    assert behind[0] is not None
    assert [end / unit for end in ends] == pytest.approx([-7.029038, 0.362371], abs=1e-5)
    assert [end / unit for end in behind[0]] == pytest.approx([-1.040583, 7.707250], abs=1e-5)
