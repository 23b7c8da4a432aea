"""Moments and spans as people write them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from mission_tui.errors import UsageError
from mission_tui.fleet.specs.quantity import parse_moment, parse_span_s


def local(*parts: int, summer: int = -1) -> float:
    """Unix seconds of a local time; of one that the clocks showed twice the second with `summer=0`."""
    return time.mktime((*parts, *[0] * (6 - len(parts)), 0, 0, summer))  # type: ignore[arg-type]


NOW = local(2026, 11, 22, 2, 30, 15)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("02:10", local(2026, 11, 22, 2, 10)),
        ("2:30:15", NOW),
        ("03:12", local(2026, 11, 21, 3, 12)),
        ("2026-11-20T03:12", local(2026, 11, 20, 3, 12)),
        (" 2026-11-20 03:12:07 ", local(2026, 11, 20, 3, 12, 7)),
        ("2026-11-20", local(2026, 11, 20)),
    ],
)
def test_a_time_of_day_is_the_last_one_before_now(word: str, meant: float) -> None:
    """With a date it is that one."""
    assert parse_moment(word, NOW) == meant


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        *((word, "03:12 or 2026-11-21T03:12") for word in ("", "soon", "2026-13-01", "-1", "9999999999999", "03:12Z")),
        ("0312", "03:12"),
        ("3.12", "03:12"),
        ("3:12 pm", "15:12"),
        ("12am", "00:00"),
        ("24:00", "00:00"),
        ("25:00", "23:00"),
        ("03:61", "03:59"),
        ("2026-11-20T25:00", "2026-11-20T23:00"),
        ("10m", "03:12, or for 10m before now --back 10m"),
    ],
)
def test_what_is_no_time_is_refused(word: str, nearest: str) -> None:
    """With the nearest words that are one."""
    with pytest.raises(UsageError, match=f"is not a time; give one such as {nearest}$"):
        parse_moment(word, NOW)


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where clocks are put forward on 29 March 2026 and back on 25 October."""
    with monkeypatch.context() as there:
        there.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
def test_an_hour_that_came_twice_is_the_last_one_that_has_been() -> None:
    """At 02:10 for the second time, 02:30 was forty minutes ago and 02:05 five."""
    now = local(2026, 10, 25, 2, 10, summer=0)
    assert now - parse_moment("02:30", now) == 2400
    assert now - parse_moment("02:05", now) == 300
    assert now - parse_moment("2026-10-25T02:30", now) == 2400
    assert parse_moment("2026-10-25T02:30", now + 86_400) == local(2026, 10, 25, 2, 30, summer=0)


@pytest.mark.usefixtures("in_berlin")
def test_an_hour_that_never_came_was_on_the_day_before() -> None:
    """With its date it is refused, with what the clocks showed instead."""
    now = local(2026, 3, 29, 4, 0)
    assert parse_moment("02:30", now) == local(2026, 3, 28, 2, 30)
    with pytest.raises(UsageError, match="no 2026-03-29T02:30 here: the clocks went forward to 2026-03-29T03:30"):
        parse_moment("2026-03-29T02:30", now)


def test_what_is_still_to_come_is_refused() -> None:
    """A replay shows no future."""
    with pytest.raises(UsageError, match="in the future"):
        parse_moment("2026-11-23", NOW)


def test_spans_name_their_unit() -> None:
    """And the flag that is wrong."""
    assert [parse_span_s(word, "--back") for word in ("30s", "10m", "1.5h", "2d", "1w")] == [
        30,
        600,
        5400,
        172800,
        604800,
    ]
    with pytest.raises(UsageError, match="--back '10' is not a length of time"):
        parse_span_s("10", "--back")


def test_a_span_with_limits_may_be_a_bare_number_of_seconds() -> None:
    """It is refused with the limits that it misses, in the largest unit that fits."""
    assert [parse_span_s(word, "--last", 0.01) for word in ("10m", "0.25s", "90")] == [600, 0.25, 90]
    for word in ("soon", "-5m", "10y"):
        with pytest.raises(UsageError, match=r"--last '.+' is not a length of time"):
            parse_span_s(word, "--last", 0.01)
    with pytest.raises(UsageError, match="--probe '2h' is out of range: give at least 1s and at most 1h"):
        parse_span_s("2h", "--probe", 1.0, 3600.0)
    with pytest.raises(UsageError, match="--last '0s' is out of range"):
        parse_span_s("0s", "--last", 0.01)
