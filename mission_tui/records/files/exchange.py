"""Two names of one file system swapped in a single step, so that replacing a directory has no moment without one."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

__all__ = ["exchange"]

AT_FDCWD = -100
RENAME_EXCHANGE = 2


def exchange(first: Path, second: Path) -> None:
    """Swap what `first` and `second` name (`renameat2(2)`). Raises `OSError`: EINVAL where the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(first))
