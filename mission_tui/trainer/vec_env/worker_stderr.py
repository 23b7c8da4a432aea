"""What env workers say on stderr: passed on to the attempt's log as it comes, and the end of it kept for each.

A worker that dies in native code leaves no exception, only these lines. One thread drains all of them, so that no
worker ever waits for the trainer to read.
"""

from __future__ import annotations

import os
import select
import threading
from contextlib import suppress

from mission_tui.fleet.text import clean

__all__ = ["WorkerStderr", "quote"]

_KEPT_BYTES = 8192
_READ_BYTES = 1 << 16
_SETTLE_S = 0.5
_QUOTED_CHARACTERS = 200
_STDERR = 2
_FATAL = "Fatal Python error"


class WorkerStderr:
    """The stderr of all workers of a training."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._wake = os.eventfd(0)
        self._poll.register(self._wake, select.EPOLLIN)
        self._kept: dict[int, bytes] = {}
        self._ended: dict[int, threading.Event] = {}
        self._thread = threading.Thread(target=self._drain, name="last-words", daemon=True)
        self._thread.start()

    def open(self) -> tuple[int, int]:
        """A pipe: the end to ask `of` about, and the end for a worker's stderr, which the caller closes."""
        heard, said = os.pipe()
        os.set_blocking(heard, False)
        self._kept[heard], self._ended[heard] = b"", threading.Event()
        self._poll.register(heard, select.EPOLLIN)
        return heard, said

    def of(self, heard: int) -> str:
        """The end of what was said, after the last of it had half a second to arrive."""
        if heard in self._ended:
            self._ended[heard].wait(_SETTLE_S)
        return self._kept.get(heard, b"").decode("utf-8", "replace")

    def close(self) -> None:
        """Stop listening; whoever still holds the other end of a pipe talks to nobody."""
        if self._poll.closed:
            return
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._poll.close()
        for descriptor in (self._wake, *self._ended):
            os.close(descriptor)
        self._ended.clear()

    def _drain(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._wake:
                    return
                self._take(descriptor)

    def _take(self, heard: int) -> None:
        part = b""
        with suppress(BlockingIOError):
            part = os.read(heard, _READ_BYTES)
            if not part:
                self._poll.unregister(heard)
                self._ended[heard].set()
        if part:
            self._kept[heard] = (self._kept[heard] + part)[-_KEPT_BYTES:]
            # A log that cannot be written costs its lines and nothing else.
            with suppress(OSError):
                os.write(_STDERR, part)


def quote(said: str) -> str:
    """The lines of `said` that tell most, as one: a fatal error with the place it came from, else the last line."""
    lines = [line for line in (clean(line, _QUOTED_CHARACTERS) for line in said.splitlines()) if line]
    fatal = next((number for number, line in enumerate(lines) if line.startswith(_FATAL)), None)
    if fatal is None:
        return lines[-1] if lines else ""
    place = next((line for line in lines[fatal:] if line.startswith("File ")), "")
    return clean(f"{lines[fatal]} {place}", _QUOTED_CHARACTERS)
