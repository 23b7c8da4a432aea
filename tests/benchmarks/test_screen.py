"""A terminal that is watched from outside, keys with known answers, and live runs that only replay."""

from __future__ import annotations

import os
import sys
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.fleet.watching import MARK, p95, walk
from benchmarks.screen import Pace, live, times, within
from benchmarks.terminal import Terminal

ECHO = """
import sys, termios, tty
tty.setcbreak(0)
sys.stdout.write("\\x1b[1mrea\\x1b[0mdy")
sys.stdout.flush()
while (key := sys.stdin.read(1)) != "q":
    sys.stdout.write("<\\x1b[31m" + key + "\\x1b[0m>" * (key != "x"))
    sys.stdout.flush()
"""


def echoing(tmp_path: Path) -> Terminal:
    """A program that writes each key in colour between brackets, but for x."""
    return Terminal([sys.executable, "-c", ECHO], os.environ, tmp_path)


def test_words_are_found_whatever_colours_they_have(tmp_path: Path) -> None:
    """Escape sequences between letters do not hide a word, and every byte is counted."""
    with echoing(tmp_path) as terminal:
        assert terminal.until("ready") > 0.0
        assert terminal.press("k", "<k>") < 5.0
        assert terminal.written_bytes == len("\x1b[1mrea\x1b[0mdy<\x1b[31mk\x1b[0m>")
        assert 0.0 < terminal.answered_s("k", 0.1) < 5.0
    assert terminal.process.returncode == 0


def test_a_key_without_an_answer_is_no_quick_answer(tmp_path: Path) -> None:
    """What another key brought earlier does not answer this one."""
    with echoing(tmp_path) as terminal:
        terminal.until("ready")
        terminal.press("k", "<k>")
        with pytest.raises(TimeoutError, match="<k>"):
            terminal.press("x", "<k>", timeout_s=0.2)


def test_keys_go_through_all_runs_and_back() -> None:
    """Every key goes to a neighbour, whose pane then has the mark; at an end the way turns."""
    steps = list(islice(walk(3), 5))
    assert {words for _, words in steps} == {MARK}
    assert [key for key, _ in steps] == ["\x1b[C", "\x1b[C", "\x1b[D", "\x1b[D", "\x1b[C"]


def test_p95_is_not_the_worst_of_many() -> None:
    """One slow key of a hundred does not decide; one of a few does."""
    assert p95([0.01] * 99 + [9.0]) == pytest.approx(0.01)
    assert p95([0.01, 0.01, 9.0]) > 7.0
    assert p95([0.5]) == 0.5


def test_a_row_is_met_by_its_median() -> None:
    """A goal that is a most is judged by the middle of the rounds."""
    assert within("it", "ms", [1.0, 2.0, 9.0], 3.0).met
    assert not within("it", "ms", [1.0, 4.0, 9.0], 3.0).met


@pytest.mark.slow
@pytest.mark.tmux
@pytest.mark.timeout(120)
def test_the_screen_is_watched_with_live_runs() -> None:
    """Replayed runs live under a real supervisor, the screen answers keys, and every number is there."""
    reading = live(Pace(rounds=1, window_s=1.0, keys=3), 2)
    assert reading.kbytes[0] > 0.0
    assert 0.0 < reading.key_ms[0] < 5000.0
    assert reading.supervisor_mib[0] > 10.0
    assert len(reading.percent) == len(reading.supervisor_percent) == 1


@pytest.mark.parametrize(("share", "met"), [(0.6, True), (0.5, False)])
def test_a_slow_machine_is_told_by_the_smallest_application(share: float, met: bool) -> None:
    """Ours may take 0.3 s for each 0.172 s that it takes: 1.74 times as long, and not twice."""
    row = times("first paint", [share, 0.1, 0.9])
    assert row.met is met
    assert row.ours is not None
    assert row.ours.median == pytest.approx(1 / share)
