"""Opening what is expected to be a plain file: a pipe, socket, device or folder under its name is an error, at once."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

__all__ = ["open_descriptor", "open_regular"]


def open_descriptor(path: Path) -> tuple[int, os.stat_result]:
    """`path` for reading, for the caller to close, and what it is now. Raises `OSError` if it is no regular file.

    Never waits for the other end of a pipe.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor, status


def open_regular(path: Path) -> BinaryIO:
    """`path` as a file to read from; see `open_descriptor`."""
    return os.fdopen(open_descriptor(path)[0], "rb")
