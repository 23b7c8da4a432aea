"""The trainer's output file: what it prints lands here without anyone having to read it, and growth has a cap.

Everyone writes with O_APPEND, so the file can be cut while the trainer holds it open.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from mission_tui.plain_files import open_to_append

__all__ = ["Output"]

KEPT_BYTES = 64 << 10
LAST_BYTES = 4096


class Output:
    """`output.log` of an attempt. Past `cap_bytes` only the newest 64 KiB stay."""

    def __init__(self, path: Path, cap_bytes: int) -> None:
        self.descriptor = open_to_append(path)
        self._cap_bytes = max(cap_bytes, KEPT_BYTES)

    def trim(self) -> None:
        """Cut the file if it passed its cap; its first line then says so."""
        size = os.fstat(self.descriptor).st_size
        if size <= self._cap_bytes:
            return
        kept = self.tail(KEPT_BYTES)
        note = f"[output passed {self._cap_bytes} bytes: only its last {len(kept)} bytes were kept]\n"
        # On a full disk the cut itself makes the room; should the rest not fit even then, the run matters more.
        with suppress(OSError):
            os.ftruncate(self.descriptor, 0)
            os.write(self.descriptor, note.encode() + kept)

    def tail(self, count: int = LAST_BYTES) -> bytes:
        """The last `count` bytes, fewer if there are not as many; none from a disk that cannot read them back."""
        size = os.fstat(self.descriptor).st_size
        with suppress(OSError):
            return os.pread(self.descriptor, count, max(0, size - count))
        return b""
