"""What the disk refuses, as a sentence: every write of a run directory passes through `storing`, so that a full disk,
a quota or a read-only remount always names the file and what would help. And the space that is kept for the one write
that must not fail then.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mission_tui.errors import MissionError
from mission_tui.plain_files import open_fresh

REMEDIES = {
    errno.ENOSPC: "free some disk space (or inodes) there",
    errno.EDQUOT: "free some of your disk quota there",
    errno.EROFS: "the file system was mounted read-only; look at `dmesg`",
    errno.EACCES: "check who owns the folder",
    errno.EPERM: "it may be immutable: `lsattr -d` of its folder shows an i, and `chattr -i` takes it away",
    errno.EEXIST: "something that is no folder stands there; move it away",
    errno.ENOTDIR: "something that is no folder stands there; move it away",
    errno.EXDEV: "it lies on a lower layer of an overlay (a container's image), or on another file system, and cannot "
    "be moved from there: remove it with `rm -r`, or keep the runs root on a volume",
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


class Reserve:
    """The file `path` of `size_bytes` that holds nothing; one holder at a time.

    Whoever meets a full disk releases it and tries once more. It is held again as soon as there is room for it twice
    over, so that a disk that is nearly full does not swing.
    """

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.path, self.size_bytes = path, size_bytes

    @property
    def held(self) -> bool:
        """Whether the space is set aside now."""
        try:
            return self.path.lstat().st_size >= self.size_bytes
        except OSError:
            return False

    @property
    def needed(self) -> bool:
        """Whether the disk is as good as full: it is given up, or less than its size is free beside it."""
        return not self.held or self._free_bytes() < self.size_bytes

    def hold(self) -> bool:
        """Set the space aside where there is room for twice as much; says whether it is held. Never raises."""
        if self.held:
            return True
        try:
            if self._free_bytes() < 2 * self.size_bytes:
                return False
            # Afresh: what has the name now may be a link, or the second name of a file elsewhere that would grow.
            descriptor = open_fresh(self.path)
        except OSError:
            return False
        try:
            # Real blocks: a file with a hole would promise space that is not there.
            os.posix_fallocate(descriptor, 0, self.size_bytes)
        except OSError:
            self.release()
        finally:
            os.close(descriptor)
        return self.held

    def release(self) -> bool:
        """Give the space back; says whether there was any."""
        try:
            self.path.unlink()
        except OSError:
            return False
        return True

    def gives_way_to(self, error: StorageError) -> bool:
        """Whether `error` is a full disk and the space was just given up for it: then trying again makes sense."""
        return error.full and self.release()

    def _free_bytes(self) -> int:
        try:
            stats = os.statvfs(self.path.parent)
        except OSError:
            return 0
        return stats.f_bavail * stats.f_frsize
