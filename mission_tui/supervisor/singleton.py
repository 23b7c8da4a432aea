"""One supervisor per runs root, by a lock that dies with its holder.

The descriptor is close-on-exec and this process never forks without exec, so no child can keep the lock.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from mission_tui.plain_files import open_to_lock

__all__ = ["still_ours", "take_lock"]


def take_lock(path: Path) -> int | None:
    """Take the lock at `path` for as long as the returned descriptor is open; None when another process has it.

    Raises `OSError` for what is no file of ours with one name: what is written there would arrive elsewhere.
    """
    descriptor = open_to_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode("ascii"))
    return descriptor


def still_ours(path: Path, descriptor: int) -> bool:
    """Whether the locked file is still the one at `path`: where it is not, another process can have taken that one."""
    try:
        return path.lstat().st_ino == os.fstat(descriptor).st_ino
    except OSError:
        return False
