"""How much memory this process's control group (cgroup) may take. In a container or a batch job that is less than the
machine has, and a process that takes more is killed there, however much the machine has free. Both versions of cgroups
are read.

Standard library only.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
_NO_LIMIT = 1 << 60
"""Version 1 writes a number that no machine has."""


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """Bytes: the tightest limit, and the least that is left of one. Page cache that can go counts as left."""

    limit: int
    left: int


@dataclass(frozen=True, slots=True)
class _Version:
    """How a version of cgroups names the group's line, the folder it is mounted in, and the files."""

    controllers: str
    folder: str
    limit: str
    used: str
    cache: str


_VERSIONS = (
    _Version("", "", "memory.max", "memory.current", "inactive_file "),
    _Version("memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
)


def group_memory(mount: Path = CGROUPS, own: Path = OWN_CGROUP) -> GroupMemory | None:
    """What the group and those above it allow; None where nothing is limited or nothing can be read."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return None
    paths = {controllers: path for _, controllers, path in (it for it in lines if len(it) == 3)}
    found: list[GroupMemory] = []
    for version in _VERSIONS:
        if version.controllers in paths:
            top = mount / version.folder
            # In a namespace of its own a group sees itself as the root, or a path that is not mounted here.
            folder = top / paths[version.controllers].strip("/")
            folders = [it for it in (folder, *folder.parents) if it == top or top in it.parents]
            found += [room for it in folders if (room := _room(it, version)) is not None]
    if not found:
        return None
    return GroupMemory(min(room.limit for room in found), min(room.left for room in found))


def _room(folder: Path, version: _Version) -> GroupMemory | None:
    with suppress(OSError, ValueError):
        limit = int((folder / version.limit).read_text())  # "max" is no number, and no limit
        used = int((folder / version.used).read_text())
        if limit < _NO_LIMIT:
            return GroupMemory(limit, max(0, limit - used + _reclaimable(folder, version)))
    return None


def _reclaimable(folder: Path, version: _Version) -> int:
    with suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text().splitlines():
            if line.startswith(version.cache):
                return int(line.split()[1])
    return 0
