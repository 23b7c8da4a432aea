"""Where a run directory really is: what its file system calls it, which no copy, restored backup or other disk has."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from mission_tui.inodes import Inode, inode_of, same_inode

__all__ = ["Place", "place_of", "same_place"]


class Place(Struct, frozen=True):
    """A directory or file: `device` (`st_dev`) or `filesystem` (`f_fsid`, 0 if it has none), inode, and the inode's
    generation, which is None where the file system has none.
    """

    device: int
    inode: int
    generation: int | None = None
    filesystem: int = 0


def place_of(path: Path | int) -> Place:
    """The place of `path`, or of an open descriptor. A link is not followed, nothing blocks. Raises `OSError`."""
    found = inode_of(path)
    return Place(found.device, found.inode, found.generation, found.filesystem)


def same_place(one: Place, other: Place) -> bool:
    """Whether both are the same directory or file, also after a reboot that numbered the devices anew."""
    return same_inode(_inode(one), _inode(other))


def _inode(place: Place) -> Inode:
    return Inode(place.device, place.filesystem, place.inode, place.generation)
