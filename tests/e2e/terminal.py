"""A real terminal for the real program: a pty drawn by a terminal emulator, so tests read what a person sees."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyte

from benchmarks.terminal import TRUE_COLOUR, started_on_terminal
from tests.waiting import until

_QUESTION = re.compile(rb"\x1b_[^\x1b]*\x1b\\")
"""What a program asks a terminal that can show pictures: others pass it over, and pyte would print it."""
KEYS = {"enter": "\r", "escape": "\x1b", "tab": "\t", "up": "\x1b[A", "down": "\x1b[B", "space": " "}


class Terminal:
    """`argv` running in its own session on a `columns` x `rows` pty. Closing it is what a lost SSH line does."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        columns: int = 80,
        rows: int = 24,
        kind: Mapping[str, str] = TRUE_COLOUR,
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._lock = threading.Lock()
        self._gone = threading.Event()
        self._open = True
        self.process, self._master = started_on_terminal(argv, environ, cwd, columns, rows, kind)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while not self._gone.is_set():
                ready, _, _ = select.select([self._master], [], [], 0.2)
                if ready:
                    data = os.read(self._master, 65536)
                    if not data:
                        return
                    with self._lock:
                        self._stream.feed(_QUESTION.sub(b"", data))

    def text(self) -> str:
        """What the screen shows now, one line per row; of a program that has ended, with all that it wrote."""
        if self.process.poll() is not None:
            self._reader.join(timeout=5)
        with self._lock:
            return "\n".join(line.rstrip() for line in self.screen.display)

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """Nothing is drawn while the block looks at `screen`."""
        with self._lock:
            yield

    def press(self, *keys: str) -> None:
        """Type keys by name or character."""
        for key in keys:
            os.write(self._master, KEYS.get(key, key).encode())

    def shows(self, words: str, timeout_s: float = 15.0, *, beside: str = "") -> str:
        """Wait until the screen contains `words`, and `beside` at the same time; returns the screen.

        A picture may arrive in parts, so what belongs to the same one is waited for together.
        """
        try:
            until(lambda: self._shows(words, beside) or self.process.poll() is not None, timeout_s)
        except AssertionError:
            both = f"{words!r}{f' beside {beside!r}' if beside else ''}"
            raise AssertionError(f"{both} never shown; the screen was:\n{self.text()}") from None
        assert words in self.text(), f"{words!r} not shown when the program ended:\n{self.text()}"
        return self.text()

    def _shows(self, words: str, beside: str) -> bool:
        text = self.text()
        return words in text and beside in text

    def hang_up(self) -> None:
        """The terminal goes away: the master closes and the kernel sends SIGHUP."""
        # The reader first: the number of a closed descriptor is soon another terminal's, whose words it would take.
        self._gone.set()
        self._reader.join(timeout=5)
        if self._open:
            os.close(self._master)
        self._open = False

    def end(self) -> None:
        """Whatever a failed test left: kill the program and release the pty."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=10)
        self.hang_up()
