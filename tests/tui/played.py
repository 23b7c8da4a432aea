"""The screen with the fake supervisor in a pseudo terminal that a test reads as fast, or as slowly, as it likes."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import until

__all__ = ["Terminal", "terminal"]

SPLITTERS = ("TMUX", "STY", "ZELLIJ")
"""Variables of programs that a person who runs the tests may have them run in."""
ROOT = Path(__file__).resolve().parents[2]


class Terminal:
    """The screen in a pseudo terminal of 80x24, in a session of its own."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self.master = master
        self.process = process
        self.output = b""
        self._looks: list[int] = []

    def read_until(self, text: bytes, timeout_s: float = 15.0) -> None:
        """Read what it paints until `text` is there."""
        deadline = time.monotonic() + timeout_s
        while text not in self.output:
            assert time.monotonic() < deadline, self.output[-500:]
            if select.select([self.master], [], [], 0.1)[0]:
                self.output += os.read(self.master, 1 << 16)

    def drain(self) -> None:
        """Read to the end of the process's output."""
        while True:
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:
                return
            if not data:
                return
            self.output += data

    def resize(self, rows: int, columns: int) -> None:
        """Give the terminal another size, as dragging a window does."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def settle(self) -> None:
        """Read until nothing is written any more."""
        looks: list[bool] = []

        def quiet() -> bool:
            reads = 0
            while reads < 2000 and select.select([self.master], [], [], 0)[0]:
                self.output += os.read(self.master, 1 << 16)
                reads += 1
            looks.append(reads > 0)
            return len(looks) > 40 and not any(looks[-40:])

        until(quiet, what="it stops writing")

    def stalled(self) -> bool:
        """Whether nothing was added to what waits to be read over the last looks, although it has more to say."""
        waiting = struct.unpack("i", fcntl.ioctl(self.master, termios.FIONREAD, b"\0" * 4))[0]
        self._looks = [*self._looks[-15:], waiting]
        return len(self._looks) == 16 and waiting > 1000 and len(set(self._looks)) == 1

    def ended_within(self, timeout_s: float) -> int:
        """The exit code, if it ends in time."""
        return self.process.wait(timeout_s)


@contextmanager
def terminal(
    kind: str = "", *, ignoring_hangup: bool = False, shell: str = "", rows: int = 24, columns: int = 80
) -> Iterator[Terminal]:
    """The screen with the fleet of `kind`, its terminal the controlling one; or `shell`, which may start it."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    trap = "trap '' HUP; " if ignoring_hangup else ""
    shell = shell or f'{trap}exec "$0" -m tests.tui.play {kind}'
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", *SPLITTERS)}
    process = subprocess.Popen(
        ["setsid", "--ctty", "sh", "-c", shell, sys.executable],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=ROOT,
        env={**environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"},
    )
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        with suppress(OSError):  # the test itself may have hung up
            os.close(master)
