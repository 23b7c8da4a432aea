"""Searching for what a person typed: as a regular expression, without regard to case, and never for long."""

from __future__ import annotations

import signal

import pytest

from mission_tui.tui.state.filter_pattern import FilterPattern, NoExpressionError

ENDLESS = r"(\w+)+-$"
LINE = "a" * 60 + "!"


def test_texts_are_found_without_regard_to_case() -> None:
    """Of each text it is known whether it is meant, and where in it."""
    filter_pattern = FilterPattern("nan|x*")
    assert FilterPattern("nan").among(["a NaN", "none"]) == [True, False]
    assert filter_pattern.spans(["a NaN", "none"]) == [[(2, 5)], []]


def test_what_takes_too_long_is_given_up_once_and_finds_everything() -> None:
    """An expression that would take longer than anybody lives is ended, told of once, and not tried again."""
    told: list[str] = []
    filter_pattern = FilterPattern(ENDLESS, lambda: told.append("too slow"))
    assert filter_pattern.among([LINE, "short"]) == [True, True]
    assert filter_pattern.among([LINE] * 1000) == [True] * 1000
    assert filter_pattern.spans([LINE]) == [[]]
    assert told == ["too slow"]


def test_a_search_that_was_ended_leaves_no_timer_behind() -> None:
    """Nothing is interrupted later: the timer is off, and another search is whole."""
    FilterPattern(ENDLESS).spans([LINE])
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert FilterPattern("b+").among(["abba"]) == [True]


def test_what_is_no_expression_is_refused_with_a_reason() -> None:
    """An unfinished expression or an enormous one is refused with a few words, and one that Python warns of is none."""
    with pytest.raises(NoExpressionError, match="missing \\)"):
        FilterPattern("(a")
    with pytest.raises(NoExpressionError, match="too large"):
        FilterPattern("(" * 5000)
    with pytest.raises(NoExpressionError, match="too large"):
        FilterPattern("a{99999999999999999999}")
    assert FilterPattern("[[]").among(["["]) == [True]
