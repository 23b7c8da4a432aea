"""The newest so many values of a series."""

from __future__ import annotations

import statistics
import sys
from collections import deque
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mission_tui.fleet.windows import Numbers, Sorted, Window

STEPS = st.lists(st.one_of(st.floats(), st.just("clear"), st.just("first")), max_size=40)


@given(STEPS, st.integers(1, 8))
def test_a_window_holds_what_a_bounded_deque_holds(steps: list[float | str], most: int) -> None:
    """Whatever is appended, dropped and cleared; numbers come back bit for bit, NaN among them."""
    model, window, numbers = deque[float](maxlen=most), Window[float](most), Numbers(most)
    for step in steps:
        if isinstance(step, float):
            for each in (model, window, numbers):
                each.append(step)
        elif step == "clear":
            for each in (model, window, numbers):
                each.clear()
        elif model:
            model.popleft()
            del window[0], numbers[0]
        assert repr(list(model)) == repr(list(window)) == repr(list(numbers))
        assert (window.maxlen, numbers.maxlen) == (most, most)


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=40), st.integers(1, 8))
def test_a_sorted_window_knows_the_median_of_what_it_holds(values: list[float], most: int) -> None:
    """The very number that sorting them gives, infinities among them, also once it was cleared."""
    window = Sorted(most)
    for number, value in enumerate(values, start=1):
        window.append(value)
        assert list(window) == values[:number][-most:]
        assert repr(window.median + 0.0) == repr(statistics.median(window) + 0.0)
    window.clear()
    window.append(values[0])
    assert window.median == values[0]


def test_of_many_at_once_the_last_stay() -> None:
    """An extension is as good as so many appends."""
    window = Window(3, "ab")
    window.extend("cdef")
    assert window == ["d", "e", "f"]


@pytest.mark.parametrize("kind", [Window, Numbers, Sorted])
def test_a_copy_goes_on_by_itself(kind: type[Window[float] | Numbers]) -> None:
    """A judge that is copied in the middle of a run has windows of the same limit."""
    first = kind(2)
    for value in (1.0, 2.0):
        first.append(value)
    second = deepcopy(first)
    second.append(3.0)
    assert not isinstance(second, Sorted) or second.median == 2.5
    assert (list(first), list(second), type(second), second.maxlen) == ([1.0, 2.0], [2.0, 3.0], kind, 2)


@pytest.mark.parametrize("kind", [Window, Numbers])
def test_an_empty_window_takes_little(kind: type[Window[float] | Numbers]) -> None:
    """There are seventy of them for each of a thousand runs."""
    assert sys.getsizeof(kind(50)) <= 100
