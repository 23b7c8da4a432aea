"""Which file or directory a path leads to, in the file system's own words; a copy never has them.

Standard library only, because the keeper compares what the supervisor wrote down.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["Inode", "inode_of", "same_inode"]

_GETVERSION = 0x80087601 if sys.maxsize > 1 << 32 else 0x80047601
"""FS_IOC_GETVERSION of linux/fs.h: the generation of an inode, which changes when its number is given away again."""


class Inode(NamedTuple):
    """`device` is `st_dev`, `filesystem` is `f_fsid` (0: it has none), `generation` is None where there are none."""

    device: int
    filesystem: int
    inode: int
    generation: int | None


def inode_of(path: Path | int) -> Inode:
    """What `path` (or an open descriptor) is. A link is not followed, nothing blocks. Raises `OSError`."""
    if isinstance(path, int):
        return _of_descriptor(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        return _of_descriptor(descriptor)
    finally:
        os.close(descriptor)


def same_inode(one: Inode, other: Inode) -> bool:
    """Whether both are the same file. Devices are numbered anew at each boot; then the file system's own id counts."""
    same_device = one.device == other.device or (one.filesystem != 0 and one.filesystem == other.filesystem)
    return same_device and (one.inode, one.generation) == (other.inode, other.generation)


def _of_descriptor(descriptor: int) -> Inode:
    status = os.fstat(descriptor)
    return Inode(status.st_dev, os.statvfs(descriptor).f_fsid, status.st_ino, _generation(descriptor))


def _generation(descriptor: int) -> int | None:
    try:
        # The kernel writes an int, although the number of the call says long.
        return int.from_bytes(fcntl.ioctl(descriptor, _GETVERSION, bytes(8))[:4], sys.byteorder)
    except OSError:
        return None
