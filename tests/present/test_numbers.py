"""Numbers as people read them, on the screen and in a pipe."""

from __future__ import annotations

import math

import pytest

from mission_tui.present.numbers import (
    DASH,
    count,
    duration,
    in_unit,
    measure,
    no_interval_words,
    part_of,
    percent,
    reading,
    reading_in,
    reading_of,
    share_words,
    size,
    spread_words,
    step_time,
)


def test_an_interval_of_a_share_is_in_percent_and_of_a_mean_it_is_said_why_there_is_none() -> None:
    """What an earlier version wrote has no interval of the share; too few episodes and equal ones differ in why."""
    assert (share_words([0.5655, 1.0]), share_words(None), share_words(["a", 1])) == ("56% to 100%", "", "")
    assert [step_time(seconds) for seconds in (0.0042, 0.9996, 1.5, 1800)] == ["4.2 ms", "1 s", "1.5 s", "30m00"]
    assert (spread_words("12", "3", 2), spread_words("12", "0", 1)) == ("12 ± 3", "12")
    assert no_interval_words(2) == "no interval: that needs 3 episodes"
    assert no_interval_words(5).startswith("no interval: all 5 episodes came to the same")


@pytest.mark.parametrize(
    ("seconds", "word"),
    [
        (None, "-"),
        (0, "0s"),
        (59.4, "59s"),
        (59.6, "1m00"),
        (200, "3m20"),
        (20_400, "5h40"),
        (183_600, "2d03"),
        (-3, "-"),
        (math.inf, "-"),
    ],
)
def test_durations_have_two_units(seconds: float | None, word: str) -> None:
    """A duration shows its two leading units, and unknown is a dash."""
    assert duration(seconds) == word


def test_almost_done_is_not_done() -> None:
    """Percent is cut, not rounded: 99.9 % of a budget is not 100 %, and what has begun is not 0 %."""
    assert (percent(0.999), percent(1.0), percent(0.0), percent(None)) == ("99%", "100%", "0%", "-")
    assert (percent(0.004), percent(0.01), percent(math.nan)) == ("<1%", "1%", "-")
    assert [percent(whole / 100) for whole in range(1, 101)] == [f"{whole}%" for whole in range(1, 101)]


def test_unknown_is_a_dash_and_zero_is_zero() -> None:
    """Unknown and zero never look alike."""
    assert (count(None), count(0), size(None), size(0)) == ("-", "0", "-", "0B")


def test_measures_of_five_and_six_digits_are_whole_numbers_as_on_the_screen() -> None:
    """A power of ten is nothing to compare by eye; rounding takes none of them over a border."""
    found = [measure(value) for value in (9999.4, 9999.5, 12345.6, -999999.4, 999999.6)]
    assert found == ["9999", "10,000", "12,346", "-999,999", "1e+06"]


def test_measures_keep_four_digits_and_name_what_is_not_finite() -> None:
    """Returns are short, and a NaN says so."""
    assert (measure(1234.567), measure(-0.000123456), measure("nan"), measure(None)) == (
        "1235",
        "-0.0001235",
        "nan",
        "-",
    )


def test_counts_separate_thousands() -> None:
    """Timesteps can be read at a glance."""
    assert count(12_345_678) == "12,345,678"


@pytest.mark.parametrize(
    ("size_bytes", "word"),
    [
        (None, "-"),
        (0, "0B"),
        (999, "999B"),
        (1023, "1.0K"),
        (1024, "1.0K"),
        (25 << 20, "25M"),
        (3 << 30, "3.0G"),
        (41 << 30, "41G"),
        (5 << 40, "5.0T"),
    ],
)
def test_sizes_have_the_largest_unit_that_fits(size_bytes: int | None, word: str) -> None:
    """A worker of 25 MB is not 0.0G."""
    assert size(size_bytes) == word


def test_a_part_has_the_unit_of_the_whole_only_where_that_is_its_own() -> None:
    """512 GiB of 2 TiB are not 512 of 2."""
    assert part_of(512 << 30, 2 << 40) == "512G/2.0T"
    assert (part_of(3 << 40, 4 << 40), part_of(800 << 20, 41 << 30)) == ("3.0T/4.0T", "800M/41G")
    assert (part_of(5 << 30, 41 << 30), part_of(None, 41 << 30), part_of(None, None)) == ("5.0/41G", "-/41G", "-")


def test_readings_have_three_digits_up_to_the_next_power() -> None:
    """An explained variance of 0.996 is not 1.00."""
    assert [reading(it) for it in (0.994, 0.996, 0.9996, 9.94, 9.96, 9.996)] == [
        "0.994",
        "0.996",
        "1.00",
        "9.94",
        "9.96",
        "10.0",
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-123_456.0, ("-123,456", "-123k", "-123k")),
        (123_456.0, ("123,456", "123,456", "123k")),
        (-12_345.0, ("-12,345", "-12,345", "-12.3k")),
        (-1.234e12, ("-1.23e12", "-1.2e12", "-1e12")),
        (-1.5e6, ("-1.50e6", "-1.50e6", "-1.5M")),
        (-0.00123, ("-1.2e-3", "-1.2e-3", "-1e-3")),
        ("nan", ("nan", "nan", "nan")),
        (None, ("-", "-", "-")),
    ],
)
def test_a_large_reading_loses_digits_and_never_its_size(value: float | str | None, words: tuple[str, ...]) -> None:
    """In eight, seven and six cells -123,456 is not -123,45, and 1.2e12 keeps its power."""
    assert tuple(reading_in(value, cells) for cells in (8, 7, 6)) == words


def test_nothing_has_no_sign() -> None:
    """A return of -0.0 is 0."""
    assert (measure(-0.0), reading(-0.0), count(-0.2)) == ("0", "0", "0")


def test_what_was_measured_has_whole_units() -> None:
    """A processor may be more than fully used, and what was not measured is a dash."""
    assert (in_unit(189.6, "%"), in_unit(71.5, "W"), in_unit(None, "C")) == ("190%", "72W", "-")


def test_noise_of_the_arithmetic_is_zero() -> None:
    """A KL of float32 beside probabilities of about 1 cannot be told from 0; a learning rate that small can."""
    assert reading_of("train/approx_kl", -8.8e-17) == "0"
    assert reading_of("policy/entropy_ratio", 9.5e-9) == "0"
    assert reading_of("train/approx_kl", 8.4e-6) == "8.4e-6"
    assert reading_of("train/learning_rate", 9.5e-9) == "9.5e-9"
    assert reading_of("train/approx_kl", "nan") == "nan"
    assert reading_of("train/approx_kl", None) == DASH
