"""A terminal that does not keep up: the newest picture instead of a queue of old ones, and keys answered at once."""

from __future__ import annotations

import os
import re
import time
from itertools import pairwise

import pyte
import pytest

from tests.tui.played import Terminal, terminal
from tests.waiting import until

pytestmark = pytest.mark.slow


MARK = b"\x1b[6n"
MOMENT = re.compile(r"now-(\d{4})")


def sip(played: Terminal, size: int) -> None:
    """Read a little, as a line of 4 KB/s would, and answer the marks in it as a terminal does."""
    before = len(played.output)
    played.output += os.read(played.master, size)
    for _ in range(played.output.count(MARK, max(0, before - 3))):
        os.write(played.master, b"\x1b[1;1R")
    wait(min(size, 1000) / 4000)


def test_a_key_on_a_slow_line_waits_for_one_picture_at_most() -> None:
    """Sixteen runs change ten times a second, a tenth of which the line carries; `+` is answered within a few KB."""
    with terminal("flood", rows=50, columns=160) as played:
        played.read_until(b"run-00")
        while played.output.count(MARK) < 2:
            sip(played, 1 << 16)
        for _ in range(8):
            sip(played, 400)
        before = len(played.output)
        os.write(played.master, b"+")
        while b"redraws at most" not in played.output[before:]:
            sip(played, 400)
            assert len(played.output) - before < 10_000


def test_after_a_stall_the_newest_picture_comes_at_once() -> None:
    """Nothing of the time in which nobody read is drawn but what was on its way, and a key pressed in it has acted."""
    with terminal("flood", rows=50, columns=160) as played:
        played.read_until(b"now-")
        until(played.stalled, 30.0, "its output is blocked")
        before = len(played.output)
        os.write(played.master, b"j")
        wait(4.0)
        due = time.monotonic() + 2.0
        while time.monotonic() < due:
            played.output += os.read(played.master, 1 << 16)
        screen = pyte.Screen(160, 50)
        stream = pyte.ByteStream(screen)
        stream.feed(played.output[:before])
        moments = []
        for at in range(before, len(played.output), 256):
            stream.feed(played.output[at : at + 256])
            if found := MOMENT.search("\n".join(screen.display)):
                moments.append(int(found[1]))
        shown = sorted(set(moments))
        at = next(at for at, (one, other) in enumerate(pairwise(shown)) if other - one > 8)
        assert at < 25
        chosen = re.findall(r"> (?:run|now)-\d{4}", "\n".join(screen.display))
        assert chosen
        assert "> run-0000" not in chosen


def wait(seconds: float) -> None:
    """Let a time pass in which nobody reads."""
    due = time.monotonic() + seconds
    until(lambda: time.monotonic() >= due, 2 * seconds + 10)
