"""The last that a short process wrote on stderr: it is read as it comes, so whatever is printed there takes no disk.

A process that writes faster than it is read waits, as it would for a terminal.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

_KEPT_BYTES = 16384
_GULP_BYTES = 65536
_GULPS_AT_THE_END = 16
"""What a grandchild goes on to write is nobody's last words: reading ends after so many times."""


class StderrTail:
    """A pipe: its `fileno` is for the process, and is given up here with `begun`, once that has a copy."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        self._kept = b""
        self._open = True
        self._loop.add_reader(self._read, self._take)

    def fileno(self) -> int:
        """What the process is given as its stderr."""
        return self._write

    def begun(self) -> None:
        """The process has started, or could not be."""
        if self._write >= 0:
            os.close(self._write)
            self._write = -1

    def text(self) -> str:
        """The last of it, now."""
        for _ in range(_GULPS_AT_THE_END):
            if not self._take():
                break
        return self._kept.decode("utf-8", "replace")

    def close(self) -> None:
        """Read no more."""
        self.begun()
        if self._open:
            self._open = False
            self._loop.remove_reader(self._read)
            os.close(self._read)

    def _take(self) -> bool:
        """Read what has come; whether there may be more."""
        if not self._open:
            return False
        with suppress(BlockingIOError):
            if said := os.read(self._read, _GULP_BYTES):
                self._kept = (self._kept + said)[-_KEPT_BYTES:]
                return True
            self.close()
        return False
