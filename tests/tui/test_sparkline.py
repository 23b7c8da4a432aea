"""Sparklines, area charts and bars."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mission_tui.tui.drawing.glyphs import area, bar, spark

METRICS = st.one_of(st.none(), st.floats(-1e12, 1e12), st.sampled_from(["nan", "inf", "-inf"]))


def test_a_value_that_never_changed_is_flat_whatever_its_means_are_rounded_to() -> None:
    """A clip range of 0.2 in buckets of three is a line, no storm."""
    assert set(spark([0.2] * 100, 11)) == {spark([0.2], 1)}


def test_a_rising_series_rises() -> None:
    """Lowest to highest block over the span of the values."""
    assert spark([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 8) == "▁▂▃▄▅▆▇█"


def test_few_values_stand_at_the_right() -> None:
    """The newest value is always in the last cell."""
    assert spark([0.0, 1.0], 5) == "   ▁█"


def test_many_values_are_averaged_over_all_of_them() -> None:
    """The whole trend is visible, not only its end."""
    assert spark([float(n) for n in range(80)], 8) == "▁▂▃▄▅▆▇█"


def test_what_is_past_stays_as_it_is() -> None:
    """Sixty updates in seven cells move on bucket by bucket: until one begins, nothing but the newest cell changes."""
    values = [float((7 * n) % 23) for n in range(400)]
    pictures = [spark(values[end - 60 : end], 7, 0, 22, last=end) for end in range(60, 400)]
    assert {len(picture.strip()) for picture in pictures} == {7}
    for before, after in pairwise(pictures):
        assert after[:-1] == before[:-1] or after[:-2] == before[1:-1]
    assert sum(after[:-1] != before[:-1] for before, after in pairwise(pictures)) <= 340 // 8 + 1


def test_unknown_is_blank_flat_is_level_and_nan_is_a_cross() -> None:
    """Three things that are not a low value."""
    assert spark([1.0, None, 2.0], 3) == "▁ █"
    assert spark([5.0, 5.0], 2) == "▄▄"
    assert spark([1.0, "nan", 2.0], 3) == "▁×█"


def test_a_fixed_scale_is_kept() -> None:
    """Percent of a processor are of 100, whatever the minute held."""
    assert spark([50.0, 50.0], 2, 0, 100) == "▅▅"


@given(st.lists(METRICS, max_size=90), st.integers(0, 40))
def test_a_sparkline_has_its_width(values: list[float | str | None], width: int) -> None:
    """No series, however broken, shifts a column."""
    assert len(spark(values, width)) == width


@given(st.lists(METRICS, max_size=90), st.integers(1, 40), st.integers(1, 9))
def test_an_area_has_its_size(values: list[float | str | None], width: int, height: int) -> None:
    """All rows, all of the width."""
    rows = area(values, width, height)
    assert len(rows) == height
    assert {len(row) for row in rows} == {width}


def test_an_area_joins_its_points() -> None:
    """Two values over five cells make a straight slope."""
    assert area([0.0, 1.0], 5, 1) == ["▁▃▅▆█"]


def test_a_bar_shows_halves() -> None:
    """A bar of four cells at 5/8 is two and a half; unknown is empty; more than all is full."""
    assert bar(0.625, 4) == ("━━╸", "─")
    assert bar(None, 4) == ("", "────")
    assert bar(7.0, 4) == ("━━━━", "")
    assert bar(0.5, 0) == ("", "")
