"""One screen of a browser: the program itself on a pty, so that it is what it is in any terminal.

Whoever reads slowly holds it up as a slow line does, and closing the pty ends it as a lost line does, even when this
process is killed. Textual's own web driver (8.2.8) writes from its event loop, where a browser that does not read would
stop the keys, and never notices that its reader has gone (docs/decisions/0059).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

CHUNK = 64 << 10
MOST_COLUMNS, MOST_ROWS = 500, 200
GRACE_S = 3.0
"""A screen whose terminal is gone ends within two seconds (`tui.textual_fixes.hangup`); after so long it is killed."""
_POLL_S = 0.02
_OUTER = ("COLUMNS", "LINES", "TMUX", "TMUX_PANE", "STY", "TERM_PROGRAM", "TERM_PROGRAM_VERSION")
"""What the terminal of `mission-tui serve` says of itself."""
_XTERM_JS = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}

_Register = Callable[[int, Callable[[], None]], object]


class ScreenCall(NamedTuple):
    """How a screen is started: the words after `mission-tui`, the working folder and the variables."""

    words: Sequence[str]
    cwd: Path
    environ: Mapping[str, str]


class ScreenProcess:
    """A screen of `columns` x `rows` that runs until it is left, or `end` is called. Raises `OSError` if it cannot be
    started. Its methods are for one asyncio loop; one task may read while another one writes.
    """

    def __init__(self, call: ScreenCall, columns: int, rows: int) -> None:
        self._master, slave = os.openpty()
        try:
            os.set_blocking(self._master, False)
            self.resize(columns, rows)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "mission_tui.web", *call.words],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                cwd=call.cwd,
                env={name: value for name, value in call.environ.items() if name not in _OUTER} | _XTERM_JS,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._master)
            raise
        finally:
            os.close(slave)
        self._watched = [self._master]
        with suppress(OSError):  # not with every container; the terminal then says alone when nobody has it
            self._watched.append(os.pidfd_open(self._process.pid))

    async def read(self) -> bytes:
        """What it wrote since, once there is something; empty when it has ended."""
        while True:
            try:
                return os.read(self._master, CHUNK)
            except BlockingIOError:
                # A job that a shell there left behind keeps the terminal open.
                if self._process.poll() is not None:
                    return b""
                loop = asyncio.get_running_loop()
                await _ready(self._watched, loop.add_reader, loop.remove_reader)
            except OSError:  # EIO: nobody has it open
                return b""

    async def write(self, data: bytes) -> None:
        """Type `data`, as soon as it reads."""
        while data:
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await _ready([self._master], loop.add_writer, loop.remove_writer)
            except OSError:
                return

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size, within what a screen can be."""
        columns, rows = max(1, min(columns, MOST_COLUMNS)), max(1, min(rows, MOST_ROWS))
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def end(self) -> None:
        """Take its terminal away and wait until it has ended. What the screen has started, runs above all, goes on."""
        for fd in self._watched:
            os.close(fd)
        deadline = time.monotonic() + GRACE_S
        while self._process.poll() is None and time.monotonic() < deadline:  # noqa: ASYNC110 - a process
            await asyncio.sleep(_POLL_S)
        if self._process.returncode is None:
            # It was not reaped, so its number is still that of its group.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


async def _ready(fds: Sequence[int], add: _Register, remove: Callable[[int], object]) -> None:
    """Wait until one of `fds` can be read, or written."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    for fd in fds:
        add(fd, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        for fd in fds:
            remove(fd)
