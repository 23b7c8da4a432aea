"""Moments and spans as people write them."""

from __future__ import annotations

import time

import pytest

from mission_tui.errors import UsageError
from mission_tui.fleet.moment_words import moment_of, span_s


def local(*parts: int) -> float:
    """Unix seconds of a local time."""
    return time.mktime((*parts, *[0] * (6 - len(parts)), 0, 0, -1))  # type: ignore[arg-type]


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
    assert moment_of(word, NOW) == meant


@pytest.mark.parametrize("word", ["", "25:00", "03:61", "soon", "2026-13-01", "-1", "9999999999999"])
def test_what_is_no_time_is_refused(word: str) -> None:
    """With two that are."""
    with pytest.raises(UsageError, match="is no time: give one such as 03:12"):
        moment_of(word, NOW)


def test_what_is_still_to_come_is_refused() -> None:
    """A replay shows no future."""
    with pytest.raises(UsageError, match="still to come"):
        moment_of("2026-11-23", NOW)


def test_spans_name_their_unit() -> None:
    """And the flag that is wrong."""
    assert [span_s(word, "--back") for word in ("30s", "10m", "1.5h", "2d", "1w")] == [30, 600, 5400, 172800, 604800]
    with pytest.raises(UsageError, match="--back '10' is no span"):
        span_s("10", "--back")
