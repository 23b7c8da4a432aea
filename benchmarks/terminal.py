"""A program on a terminal of its own, watched from outside: when words appear on it, how much it writes, how soon it
answers a key.

What is measured is what a person at that terminal would see: bytes that the program wrote, not what it believes.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

__all__ = ["COLUMNS", "LINES", "Terminal", "started_on_terminal"]

COLUMNS, LINES = 160, 50
_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;:?<>=]*[ -/]*[@-~]|[@-Z\\-_])")
_READ_BYTES = 1 << 16


class Terminal:
    """`argv` on a terminal of 160x50, leaving when the block ends."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str], cwd: Path) -> None:
        self.written_bytes = 0
        self.begun = time.perf_counter()
        self.process, self._master = started_on_terminal(argv, environ, cwd, COLUMNS, LINES)

    def until(self, words: str, timeout_s: float = 30.0) -> float:
        """Seconds until `words` are written, escape sequences aside. Raises `TimeoutError`."""
        begun, seen = time.perf_counter(), b""
        while (left := begun + timeout_s - time.perf_counter()) > 0:
            seen += self._read(left)
            if words.encode() in _ESCAPES.sub(b"", seen):
                return time.perf_counter() - begun
            seen = seen[-_READ_BYTES:]
        raise TimeoutError(f"{words!r} was not written within {timeout_s:.0f} s")

    def press(self, key: str, words: str, timeout_s: float = 5.0) -> float:
        """Seconds from a key until `words`, which it brings, are written. Raises `TimeoutError`."""
        # Before it is written: this process may lose its turn right after, and the paint be there when it comes back.
        begun = time.perf_counter()
        os.write(self._master, key.encode())
        self.until(words, timeout_s)
        return time.perf_counter() - begun

    def answered_s(self, key: str, silence_s: float) -> float:
        """Seconds from a key until the last of what it brings is written: nothing follows it for `silence_s`.

        Raises `TimeoutError` where it brings nothing within a second.
        """
        begun = last = time.perf_counter()
        os.write(self._master, key.encode())
        while time.perf_counter() - last < (silence_s if last > begun else 1.0):
            if self._read(silence_s):
                last = time.perf_counter()
        if last == begun:
            raise TimeoutError(f"nothing was written for {key!r}")
        return last - begun

    def send(self, key: str) -> None:
        """Press a key that brings nothing to wait for."""
        os.write(self._master, key.encode())

    def watch(self, seconds: float) -> None:
        """Read what comes for so long, as a terminal does."""
        deadline = time.perf_counter() + seconds
        while (left := deadline - time.perf_counter()) > 0:
            self._read(left)

    def close(self, leave: str = "q") -> None:
        """Leave with a key; a program that stays is killed."""
        os.write(self._master, leave.encode())
        deadline = time.perf_counter() + 5.0
        while self.process.poll() is None and time.perf_counter() < deadline:
            self._read(0.1)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._master)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, timeout_s: float) -> bytes:
        if not select.select([self._master], [], [], timeout_s)[0]:
            return b""
        try:
            data = os.read(self._master, _READ_BYTES)
        except OSError:
            # The other side is closed: the program has ended.
            time.sleep(min(timeout_s, 0.05))
            return b""
        self.written_bytes += len(data)
        return data


TRUE_COLOUR: Mapping[str, str] = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
"""What a terminal of today says of itself."""


def started_on_terminal(
    argv: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    columns: int,
    lines: int,
    kind: Mapping[str, str] = TRUE_COLOUR,
) -> tuple[subprocess.Popen[bytes], int]:
    """`argv` in a session of its own on a new terminal, and the terminal's other end, which is for the caller to close.

    `kind` is what the terminal says of itself, whatever `environ` says of the terminal that this was started on.
    The terminal is the session's own, so that its loss reaches the program as SIGHUP, and Ctrl-C as SIGINT.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        argv,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=cwd,
        env={**environ, **kind},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no lock of ours is taken in it
    )
    os.close(slave)
    return process, master
