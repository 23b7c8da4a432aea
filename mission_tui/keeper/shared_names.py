"""Named shared memory of an attempt of which nothing lives: exactly what the attempt wrote down itself is removed."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from mission_tui.plain_files import read_plain

__all__ = ["remove_shared_memory"]

SHARED = Path("/dev/shm")  # noqa: S108 - where the kernel keeps named shared memory
MOST_BYTES = 1 << 20


def remove_shared_memory(record: Path) -> list[str]:
    """Remove what `record` (lines of inode and name) names and what still is that; the names removed."""
    removed = []
    with suppress(OSError):
        for line in read_plain(record, MOST_BYTES).splitlines():
            number, _, name = line.partition(b" ")
            if number.isdigit() and name and b"/" not in name and _remove(SHARED / os.fsdecode(name), int(number)):
                removed.append(os.fsdecode(name))
    return removed


def _remove(path: Path, inode: int) -> bool:
    try:
        status = path.lstat()
        # A later piece of memory may have the name: then its inode is another.
        if not stat.S_ISREG(status.st_mode) or status.st_ino != inode or status.st_uid != os.getuid():
            return False
        path.unlink()
    except (OSError, ValueError):
        return False
    return True
