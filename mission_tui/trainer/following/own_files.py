"""Which files are a run's own: those that its processes have open for writing, and those that were made since it began
and that no process of somebody else writes. Two scripts may log into folders of one pattern at the same time.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mission_tui.errors import DamagedError
from mission_tui.procfs import Stat, boot_id, process_ids, read_stat
from mission_tui.records.runs.attempt import read_identity

_AT_FDCWD, _STATX_BTIME = -100, 0x800
_STATX_BYTES, _BTIME_AT = 256, 80
_GENERATIONS = 64


class OwnFiles:
    """Those of the attempt whose identity is at `identity`, begun at unix time `since`, that were written since.

    Whose a file is was seen once and stays so: the writer may have closed it by the next look. Only a process of the
    run's own takes it from another.
    """

    def __init__(self, identity: Path | None, since: float) -> None:
        self._identity = identity
        self._since = since
        self._held: set[Path] = set()
        self._of_others: set[Path] = set()

    def among(self, paths: Iterable[Path]) -> list[Path]:
        """Those of `paths` that are the run's own, those that its processes held open first."""
        found = {path: path.resolve() for path in paths if path.stat().st_mtime >= self._since}
        ours, others = self._writers()
        for path, real in found.items():
            if str(real) in ours:
                self._held.add(path)
                self._of_others.discard(path)
            elif str(real) in others and path not in self._held:
                self._of_others.add(path)
        held = [path for path in found if path in self._held]
        free = [path for path in found if path not in self._held and path not in self._of_others]
        return [*held, *filter(self._is_new, free)]

    def was_held(self, path: Path) -> bool:
        """Whether a process of the run was seen to have `path` open."""
        return path in self._held

    def _is_new(self, path: Path) -> bool:
        made_t = made_at(path)
        return made_t is None or made_t >= self._since

    def _writers(self) -> tuple[set[str], set[str]]:
        """The paths that the run's processes have open for writing, and those that others of this user have."""
        stats = dict(_processes())
        own = self._processes(stats)
        ours: set[str] = set()
        others: set[str] = set()
        for pid in stats:
            (ours if pid in own else others).update(_written_by(pid))
        return ours, others

    def _processes(self, stats: Mapping[int, Stat]) -> set[int]:
        """The run's: those in its session, and whatever they started."""
        try:
            identity = None if self._identity is None else read_identity(self._identity)
        except (DamagedError, OSError):
            identity = None
        if identity is None or identity.boot_id != boot_id():
            return set()
        known = (identity.keeper, identity.trainer)
        roots = {it.pid for it in known if it.pid in stats and stats[it.pid].start_time == it.start_time}
        roots |= {pid for pid, stat in stats.items() if stat.session == identity.session}
        return {pid for pid in stats if not roots.isdisjoint(_line_of(pid, stats))}


def made_at(path: Path) -> float | None:
    """When the file at `path` was made, in unix seconds; None where the file system or the C library cannot tell."""
    answer = ctypes.create_string_buffer(_STATX_BYTES)
    try:
        failed = ctypes.CDLL(None).statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, answer)
    except AttributeError:
        return None
    if failed or not int.from_bytes(answer.raw[:4], "little") & _STATX_BTIME:
        return None
    seconds, nanoseconds = (answer.raw[_BTIME_AT : _BTIME_AT + 8], answer.raw[_BTIME_AT + 8 : _BTIME_AT + 12])
    return int.from_bytes(seconds, "little", signed=True) + int.from_bytes(nanoseconds, "little") / 1e9


def _line_of(pid: int, stats: Mapping[int, Stat]) -> Iterator[int]:
    """`pid` and those above it."""
    for _ in range(_GENERATIONS):
        yield pid
        if pid not in stats:
            return
        pid = stats[pid].parent


def _processes() -> Iterator[tuple[int, Stat]]:
    """Those of this user."""
    uid = os.getuid()
    for pid in process_ids():
        try:
            stat = read_stat(pid) if Path(f"/proc/{pid}").stat().st_uid == uid else None
        except OSError:
            continue
        if stat is not None:
            yield pid, stat


def _written_by(pid: int) -> Iterator[str]:
    """The paths that `pid` has open for writing: who only reads a log, as TensorBoard does, is not its owner."""
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - half the price
    except OSError:
        return
    for descriptor in descriptors:
        try:
            path = os.readlink(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH115 - half the price
            if path.startswith("/") and not path.startswith("/dev/") and _writes(pid, descriptor):
                yield path
        except OSError:
            continue


def _writes(pid: int, descriptor: str) -> bool:
    for line in Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text(encoding="ascii").splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False
