"""The end of an attempt's output, as pages arrive."""

from __future__ import annotations

import pytest

from mission_tui.ipc.replies import LogReply
from mission_tui.ipc.requests import GetLog
from mission_tui.tui.state.run_data import LogTail


def page(text: str, start: int, *, attempt: int = 1, size: int | None = None) -> LogReply:
    end = start + len(text)
    return LogReply(re=1, run="r", attempt=attempt, text=text, start=start, end=end, size=size or end)


def asked(make: object) -> GetLog:
    assert callable(make)
    request = make(1)
    assert isinstance(request, GetLog)
    return request


def test_the_first_request_is_for_the_end_and_the_next_for_what_follows() -> None:
    """An unknown log is asked for without an offset."""
    tail = LogTail("r")
    assert asked(tail.later()).offset is None
    assert tail.take(page("one\ntwo\n", 100))
    assert asked(tail.later()).offset == 108
    assert tail.take(page("three\n", 108))
    assert tail.lines == ["one", "two", "three"]


def test_an_empty_page_changes_nothing() -> None:
    """The screen is not drawn again for nothing."""
    tail = LogTail("r")
    tail.take(page("one\n", 0))
    assert not tail.take(page("", 4))


def test_a_line_is_joined_over_pages() -> None:
    """A page may end in the middle of a line."""
    tail = LogTail("r")
    tail.take(page("hal", 0))
    tail.take(page("f\n", 3))
    assert tail.lines == ["half"]


def test_earlier_pages_come_before() -> None:
    """Until the beginning of the file."""
    tail = LogTail("r")
    assert tail.page("earlier") is None
    tail.take(page("two\n", 70_000))
    request = asked(tail.page("earlier"))
    assert (request.offset, request.limit, request.attempt) == (70_000 - 65_536, 65_536, 1)
    tail.take(LogReply(re=1, run="r", attempt=1, text="one\n", start=0, end=70_000, size=80_000))
    assert tail.lines == ["one", "two"]
    assert tail.page("earlier") is None
    assert tail.stretch.first == -1


def test_a_page_that_ends_before_half_a_character_still_joins() -> None:
    """Progress bars are no ASCII, and a page begins at any byte: what was shown must not be put away for it."""
    tail = LogTail("r")
    tail.take(page("\ufffd\ufffd done\n", 70_000))
    tail.take(LogReply(re=1, run="r", attempt=1, text="half \u2588", start=10_000, end=69_999, size=80_000))
    assert tail.lines == ["half \u2588\ufffd\ufffd done"]


def test_the_beginning_of_a_long_output_is_read_page_by_page() -> None:
    """It is detached from the end until its pages reach it, or the newest one is asked for."""
    tail = LogTail("r")
    tail.take(page("end\n", 99_996))
    assert not tail.detached
    assert (tail.page("later"), tail.page("newest")) == (None, None)
    assert asked(tail.page("beginning")).offset == 0
    tail.take(page("begin\n", 0, size=100_000))
    assert (tail.detached, tail.lines, tail.stretch.first) == (True, ["begin"], 0)
    assert asked(tail.page("later")).offset == 6
    assert asked(tail.page("newest")).offset is None
    tail.take(page("next\n", 6, size=11))
    assert (tail.detached, tail.lines) == (False, ["begin", "next"])


def test_going_far_back_lets_the_newest_lines_go() -> None:
    """Memory is bounded in that direction too; a line keeps its number."""
    tail = LogTail("r")
    tail.take(page("end\n", 1 << 22))
    for n in range(1, 8):
        tail.take(page("y" * ((1 << 18) - 1) + "\n", (1 << 22) - n * (1 << 18), size=(1 << 22) + 4))
    assert sum(map(len, tail.lines)) <= 1 << 20
    assert tail.detached
    assert tail.stretch.first == -7
    assert tail.end == tail.start + (1 << 20)


def test_a_new_attempt_or_a_cut_file_starts_anew() -> None:
    """Bytes of another file never join these."""
    tail = LogTail("r")
    tail.take(page("old\n", 0))
    tail.take(page("new\n", 0, attempt=2))
    assert tail.lines == ["new"]
    tail.take(page("cut\n", 0, attempt=2, size=3))
    assert tail.lines == ["cut"]


def test_progress_bars_leave_their_last_state() -> None:
    """Carriage returns overwrite, as in a terminal."""
    tail = LogTail("r")
    tail.take(page("10%\r50%\r100%\r\ndone\n", 0))
    assert tail.lines == ["100%", "done"]


@pytest.mark.slow
def test_memory_is_bounded() -> None:
    """A flood keeps only its end, in whole lines, and knows that there was more."""
    tail = LogTail("r")
    tail.take(page("x" * 99 + "\n", 0))
    for n in range(1, 400):
        tail.take(page(("y" * 8191 + "\n"), 100 + (n - 1) * 8192))
    assert sum(map(len, tail.lines)) <= 1 << 20
    assert set(tail.lines) == {"y" * 8191}
    assert tail.start > 0
