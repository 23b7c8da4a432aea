"""What the disk refuses, as a sentence: every write of a run directory passes through `storing`, so that a full disk,
a quota or a read-only remount always names the file and what would help.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mission_tui.errors import MissionError

__all__ = ["StorageError", "storing"]

REMEDIES = {
    errno.ENOSPC: "free some disk space (or inodes) there",
    errno.EDQUOT: "free some of your disk quota there",
    errno.EROFS: "the file system was mounted read-only; look at `dmesg`",
    errno.EACCES: "check who owns the folder",
    errno.EPERM: "it may be immutable: `lsattr -d` of its folder shows an i, and `chattr -i` takes it away",
    errno.EEXIST: "something that is no folder stands there; move it away",
    errno.ENOTDIR: "something that is no folder stands there; move it away",
    errno.EIO: "the disk reports errors; copy the run directory to another one",
}


class StorageError(MissionError):
    """The file system refused a write; `errno` tells a full disk from a broken one."""

    def __init__(self, sentence: str, number: int | None) -> None:
        super().__init__(sentence)
        self.errno = number

    @property
    def full(self) -> bool:
        """Whether the disk, or what one may use of it, is used up."""
        return self.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def storing(path: Path, action: str = "write") -> Iterator[None]:
    """Turn an `OSError` inside into a `StorageError` that names `path` and the remedy."""
    try:
        yield
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "check the folder and start again")
        raise StorageError(f"cannot {action} {path}: {error.strerror or error}; {remedy}", error.errno) from error
