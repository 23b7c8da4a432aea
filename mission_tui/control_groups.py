"""How much memory and how many cores this process's control group (cgroup) may take. In a container or a batch job that
is less than the machine has: a process that takes more memory is killed there, however much the machine has free, and
one that takes more of the cores stands still until the next period. Both versions of cgroups are read.

Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
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
    paths = _paths(own)
    found: list[GroupMemory] = []
    for version in _VERSIONS:
        if version.controllers in paths:
            folders = _and_above(mount / version.folder, paths[version.controllers])
            found += [room for it in folders if (room := _room(it, version)) is not None]
    if not found:
        return None
    return GroupMemory(min(room.limit for room in found), min(room.left for room in found))


def usable_cores(mount: Path = CGROUPS, own: Path = OWN_CGROUP) -> int:
    """How many cores this process may keep busy: those it may run on, or fewer where its group has a quota of less."""
    cores, quota = len(os.sched_getaffinity(0)), group_cores(mount, own)
    return cores if quota is None else max(1, min(cores, int(quota + 1e-6)))


def group_cores(mount: Path = CGROUPS, own: Path = OWN_CGROUP) -> float | None:
    """For how many cores' time the group and those above it have a quota; None where there is none."""
    found: list[float] = []
    for controllers, path in _paths(own).items():
        if not controllers:
            found += [cores for it in _and_above(mount, path) if (cores := _quota(it, "cpu.max"))]
        elif "cpu" in controllers.split(","):
            top = mount / controllers if (mount / controllers).is_dir() else mount / "cpu"
            files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            found += [cores for it in _and_above(top, path) if (cores := _quota(it, *files))]
    return min(found, default=None)


def _quota(folder: Path, *names: str) -> float | None:
    with suppress(OSError, ValueError, ZeroDivisionError):
        # "max" is no number, and -1 of version 1 no quota.
        quota, period = map(int, " ".join((folder / name).read_text() for name in names).split())
        return quota / period if quota > 0 else None
    return None


def _paths(own: Path) -> dict[str, str]:
    """By controllers ("" is version 2) the path of the group."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return {}
    return {controllers: path for _, controllers, path in (it for it in lines if len(it) == 3)}


def _and_above(top: Path, path: str) -> Iterator[Path]:
    # In a namespace of its own a group sees itself as the root, or a path that is not mounted here.
    folder = top / path.strip("/")
    return (it for it in (folder, *folder.parents) if it == top or top in it.parents)


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
