"""The screen in a real terminal: its sizes, what is written to it, and an end that leaves no spinning orphan."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pyte
import pytest

from tests.tui.played import terminal
from tests.waiting import until

WATCHING = """
import asyncio, os, pty, threading
from mission_tui.tui.session import watched_terminal

async def main():
    left = asyncio.get_running_loop().create_future()
    master, slave = pty.openpty()
    with watched_terminal(slave, left.set_result):
        {meanwhile}

asyncio.run(main())
{after}
"""
REPLACED = """
        os.dup2(os.open(os.devnull, os.O_RDWR), slave)
        os.close(master)
        print(await asyncio.wait_for(left, 10))
        os._exit(0)  # as a screen that leaves in order
"""
ENDED = """
for thread in threading.enumerate():
    if thread.name == "terminal-watch":
        thread.join(10)
print(threading.active_count(), len(os.listdir("/proc/self/fd")) - before)
"""


def watching(meanwhile: str, after: str = "") -> str:
    """What a program prints that watches a terminal of its own."""
    program = WATCHING.format(meanwhile=meanwhile, after=after)
    begin = 'import os\nbefore = len(os.listdir("/proc/self/fd")) + 2  # the two ends of its terminal\n'
    command = [sys.executable, "-c", begin + program]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=30).stdout


def test_a_watch_outlives_that_its_terminal_is_replaced() -> None:
    """Each session of a program has a watch; whichever hears of the hang-up first puts /dev/null in its place."""
    assert watching(REPLACED) == "129\n"


def test_a_watch_ends_with_its_session() -> None:
    """A visit to a replay is a session; neither its thread nor a descriptor of it stays."""
    assert watching("pass", ENDED) == "1 0\n"


@pytest.mark.parametrize("ignoring", [False, True], ids=["signal", "nohup"])
def test_a_hang_up_ends_the_screen_within_two_seconds(ignoring: bool) -> None:
    """With SIGHUP and, where that is ignored, by the hang-up alone."""
    with terminal(ignoring_hangup=ignoring) as played:
        played.read_until(b"heavy-3f9a")
        os.close(played.master)
        assert played.ended_within(2.0) == 129


def test_a_hang_up_that_also_continues_it_ends_a_job_of_a_shell() -> None:
    """As the kernel does when the shell ends: taken for a `bg`, it stopped the screen for ever."""
    with terminal(shell='trap "" HUP; set -m; "$0" -m tests.tui.play; sleep 20') as played:
        played.read_until(b"heavy-3f9a")
        (job,) = psutil.Process(played.process.pid).children()
        job.suspend()
        until(lambda: job.status() == psutil.STATUS_STOPPED, what="it is stopped, so that it wakes up to both at once")
        os.close(played.master)
        job.resume()
        try:
            job.wait(5)
        finally:
            for one in psutil.Process(played.process.pid).children():
                one.kill()


@pytest.mark.slow
def test_a_hang_up_of_a_stalled_terminal_ends_the_screen_too() -> None:
    """Nobody has read for so long that the output is blocked when the terminal goes."""
    with terminal("flood", ignoring_hangup=True) as played:
        played.read_until(b"run-00")
        until(played.stalled, what="its output is blocked")
        os.close(played.master)
        assert played.ended_within(2.0) == 129


def test_termination_leaves_a_clean_terminal() -> None:
    """SIGTERM ends in order: the alternate screen is left and the cursor comes back."""
    with terminal() as played:
        played.read_until(b"heavy-3f9a")
        played.process.terminate()
        played.drain()
        assert played.ended_within(5.0) == 143
        assert played.output.index(b"\x1b[?1049l") < played.output.rindex(b"\x1b[?25h")


@pytest.mark.slow
def test_a_stop_without_a_word_costs_no_key_and_no_end() -> None:
    """SIGSTOP and SIGCONT, as of a laptop that slept: the picture is painted again, keys work, and `q` leaves."""
    with terminal() as played:
        played.read_until(b"heavy-3f9a")
        played.settle()
        for signum in (signal.SIGSTOP, signal.SIGCONT):
            os.kill(played.process.pid, signum)
        played.output = b""
        played.read_until(b"heavy-3f9a")
        played.settle()
        played.output = b""
        os.write(played.master, b"?")
        played.read_until(b"take back a start")
        os.write(played.master, b"q")
        played.settle()
        os.write(played.master, b"q")
        played.drain()
        assert played.ended_within(5) == 0


@pytest.mark.slow
def test_a_screen_that_was_continued_in_the_background_comes_to_the_front() -> None:
    """SIGSTOP and SIGCONT from elsewhere: it stops again, without a terminal, and after `fg` takes keys."""
    with terminal(shell="exec bash --norc --noprofile -i") as played:
        os.write(played.master, f"{sys.executable} -m tests.tui.play\n".encode())
        played.read_until(b"heavy-3f9a")
        played.settle()
        (job,) = psutil.Process(played.process.pid).children()
        job.suspend()
        played.read_until(b"Stopped")
        job.resume()
        played.settle()
        until(lambda: job.status() == psutil.STATUS_STOPPED, what="it is stopped again")
        played.output = b""
        os.write(played.master, b"fg\n")
        played.read_until(b"heavy-3f9a")
        played.settle()
        played.output = b""
        os.write(played.master, b"?")
        played.read_until(b"take back a start")
        job.kill()


def test_a_real_terminal_shows_hostile_text_as_text() -> None:
    """No title, no clipboard, no cursor: an emulator's cells hold pictures of what was sent."""
    with terminal("hostile") as played:
        played.read_until("␛]0;title".encode())
        played.read_until(b"demo")  # presets are read once the first picture stands
        os.write(played.master, b"q")
        played.drain()
    before_leaving = played.output.split(b"\x1b[?1049l")[0]
    assert b"\x1b]0;" not in before_leaving
    assert b"\x1b]52;" not in before_leaving
    screen = pyte.Screen(80, 24)
    pyte.ByteStream(screen).feed(before_leaving)
    assert "title" not in screen.title
    assert any("␛]0;title" in line for line in screen.display)
    assert screen.display[-1].startswith(" 1 demo 2 fast")


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns"), [(0, 0), (1, 1), (24, 10_000)])
def test_an_odd_size_is_drawn_once_and_then_left_alone(rows: int, columns: int) -> None:
    """A terminal that does not know its size, or a silly one, costs no processor time, and the keys still work."""
    with terminal(rows=rows, columns=columns) as played:
        played.read_until(b"\x1b[?2004h")
        played.settle()
        os.write(played.master, b"q")
        played.drain()
        assert played.ended_within(5.0) == 0


@pytest.mark.slow
def test_a_storm_of_sizes_ends_in_the_last_ones_picture() -> None:
    """A thousand changes of size, as a tiling window manager makes them, and then an ordinary one."""
    with terminal() as played:
        played.read_until(b"heavy-3f9a")
        for n in range(1000):
            played.resize(1 + n * 7 % 90, 1 + n * 13 % 280)
        played.resize(24, 80)
        played.settle()
        played.output = b""
        played.resize(25, 80)
        played.read_until(b"demo")
        played.settle()
        screen = pyte.Screen(80, 25)
        pyte.ByteStream(screen).feed(played.output)
        assert screen.display[-1].startswith(" 1 demo 2 fast 3 heavy")
        os.write(played.master, b"q")
        played.drain()
        assert played.ended_within(5.0) == 0
