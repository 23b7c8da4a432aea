"""Opening what is expected to be a plain file: a pipe, socket, device or folder under its name is an error, at once."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

__all__ = ["open_regular"]


def open_regular(path: Path) -> BinaryIO:
    """`path` for reading. Raises `OSError` if it is no regular file; never waits for the other end of a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")
