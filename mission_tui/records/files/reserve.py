"""Disk space kept for the one write that must not fail when the disk is full: a file that is given up for it.

Whoever meets a full disk releases the reserve and tries once more. It is held again as soon as there is room for it
twice over, so that a disk that is nearly full does not swing.
"""

from __future__ import annotations

import os
from pathlib import Path

from mission_tui.plain_files import open_fresh
from mission_tui.records.files.storage import StorageError

__all__ = ["Reserve"]


class Reserve:
    """The file `path` of `size_bytes` that holds nothing; one holder at a time."""

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
