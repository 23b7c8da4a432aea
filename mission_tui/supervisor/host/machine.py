"""The machine's meters, sampled once a second by one sampler for everybody: how busy every core was, memory with swap.

Memory is what this process's control group may take where that is less than the machine has.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Collection
from pathlib import Path
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from mission_tui.control_groups import group_memory, usable_cores
from mission_tui.fleet.capacity.demand import Machine
from mission_tui.fleet.strip import METER_LEVELS, SLOW_LEVELS, CellHistory
from mission_tui.fleet.views.snapshot import HostMeters, OtherProgram

_HISTORY = 60
_LONGEST_S = 10.0
STEP_S = 60.0
WINDOW = 360
"""Samples, one a minute: six hours."""

LEAST_SPAN_S = 600.0
LONGEST_S = 365 * 86400.0
FREED_SHARE = 0.05
"""A rise by this share of what was free is somebody's deletion, not the saw of checkpoints that come and go."""
_STAT, _MEMINFO = Path("/proc/stat"), Path("/proc/meminfo")
_USER_TO_STEAL, _IDLE = 8, (3, 4)
"""Columns of /proc/stat that add up to all time (guests are part of user time already), and idle with waiting."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KIB = 1024


class HostSampler:
    """Reads CPU, RAM, load and the free space of the runs root's disk. `cores` may be kept busy, which a quota makes
    fewer than those on which processes may run, `present`, of which all meters are.

    `cpu` is a day of processor use in percent of all cores, on the monotonic clock; `recent`: the last minute of it.
    `meters` are a day of `ram` and `swap` in use and `disk` free, in bytes, and of the `load`, for who looks back.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._name = socket.gethostname()
        self.cores = usable_cores()
        self.present = len(os.sched_getaffinity(0))
        self.cpu = CellHistory(SLOW_LEVELS)
        self.meters: dict[str, CellHistory] = {}
        self.recent: deque[float] = deque(maxlen=_HISTORY)
        self._looked_at = time.monotonic()
        self._processors = Processors()
        self._disk = DiskTrend()

    def sample(
        self,
        gpu_note: str,
        alone_note: str = "",
        *,
        disk_full: bool = False,
        others: tuple[OtherProgram, ...] = (),
    ) -> HostMeters:
        """The meters of this second with what is known of `others`; what cannot be read is None."""
        memory, free = memory_of_group(), self.disk_free()
        busy, cores = self._processors.sample()
        load = os.getloadavg()[0]
        full = None if free is None else self._disk.observe(time.monotonic(), free)
        self._add_history(None if busy is None else round(busy, 1), memory, free, load)
        return HostMeters(
            name=self._name,
            cores=self.present,
            cpu_percent=self.recent[-1] if busy is not None else None,
            cpu_cores=cores,
            ram_used=None if memory is None else memory.total - memory.available,
            ram_total=None if memory is None else memory.total,
            swap_used=None if memory is None else memory.swap_used,
            swap_total=None if memory is None else memory.swap_total,
            disk_free=free,
            load_1m=load,
            gpu_note=gpu_note,
            alone_note=alone_note,
            disk_full=disk_full,
            disk_full_in_s=full.seconds if full is not None else None,
            disk_full_low_s=full.low_s if full is not None else None,
            disk_full_high_s=full.high_s if full is not None else None,
            cpu_history=tuple(self.recent),
            others=others,
        )

    def _add_history(self, percent: float | None, memory: Memory | None, free: int | None, load: float) -> None:
        now = time.monotonic()
        since_s, self._looked_at = now - self._looked_at, now
        # The mean since the last look is of the time before; after a long silence of nobody knows when.
        known = 0.0 < since_s < _LONGEST_S
        if percent is not None:
            self.recent.append(percent)
            if known:
                self.cpu.add_constant(percent, now - since_s, since_s)
        seen: dict[str, tuple[float | None, int | None]] = {"disk": (free, None), "load": (round(load, 2), None)}
        if memory is not None:
            seen["ram"] = memory.total - memory.available, memory.total
            seen["swap"] = memory.swap_used, memory.swap_total
        for what, (value, total) in seen.items():
            if value is not None and known:
                history = self.meters.setdefault(what, CellHistory(METER_LEVELS))
                history.add_constant(value, now - since_s, since_s)
                history.total = total

    def machine(self, gpu: bool, gpu_count: int | None, claimed_bytes: int = 0) -> Machine:
        """The same facts, for deciding whether a run can be carried; `claimed_bytes` of memory are spoken for."""
        memory = memory_of_group()
        total, available = (None, None) if memory is None else (memory.total, memory.available)
        return Machine(
            cores=self.cores,
            ram_total=total,
            ram_free=None if available is None else max(0, available - claimed_bytes),
            disk_free=self.disk_free(),
            gpu=gpu,
            gpu_count=gpu_count,
        )

    def disk_free(self) -> int | None:
        """Bytes that may still be written on the disk of the runs root."""
        try:
            stats = os.statvfs(self._root)
        except OSError:
            return None
        return stats.f_bavail * stats.f_frsize


def memory_of_group() -> Memory | None:
    """The machine's memory, or what this control group may take of it where that is less."""
    try:
        memory = read_memory()
    except OSError:
        memory = None
    group = group_memory()
    if group is None:
        return memory
    if memory is None:
        return Memory(group.limit, group.left, 0, 0)
    return replace(memory, total=min(memory.total, group.limit), available=min(memory.available, group.left))


class TimeToFull(Struct, frozen=True):
    """Seconds until a disk is full, and between what they lie; `high_s` None: it may not fill at all."""

    seconds: float
    low_s: float
    high_s: float | None


class DiskTrend:
    """Free bytes of one disk over the last hours, whichever program writes there."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=WINDOW)
        self._full_in: TimeToFull | None = None

    def observe(self, t: float, free: int) -> TimeToFull | None:
        """Take in `free` bytes at moment `t` (s); when none is left, by the median of the slopes between moments half
        of the window apart or more (after Theil and Sen), which a single large file does not move. The range has four
        fifths of the slopes.

        None while ten minutes were not seen, while the disk does not fill, or when that is more than a year away.
        """
        if self._seen and t - self._seen[-1][0] < STEP_S:
            return self._full_in
        if self._seen and free > self._seen[-1][1] * (1 + FREED_SHARE):
            self._seen.clear()
        self._seen.append((t, free))
        self._full_in = self._judged(free)
        return self._full_in

    def _judged(self, free: int) -> TimeToFull | None:
        seen, many = list(self._seen), len(self._seen)
        if seen[-1][0] - seen[0][0] < LEAST_SPAN_S:
            return None
        # Pairs as far apart as these say the same as all pairs would, and are a few hundred, not tens of thousands.
        apart = sorted({many // 2, many * 5 // 8, many * 3 // 4})
        paces = sorted(
            (seen[at][1] - seen[at + by][1]) / (seen[at + by][0] - seen[at][0])
            for by in apart
            for at in range(many - by)
        )
        pace, slow, fast = median(paces), paces[len(paces) // 10], paces[-1 - len(paces) // 10]
        if pace <= 0 or free / pace >= LONGEST_S:
            return None
        return TimeToFull(free / pace, free / fast, free / slow if slow > 0 and free / slow < LONGEST_S else None)


class Memory(Struct, frozen=True):
    """Bytes; `available` is what could be had without swapping."""

    total: int
    available: int
    swap_total: int
    swap_used: int


class Processors:
    """How busy all cores and each one were between two looks; the first look is at its making."""

    def __init__(self, stat: Path = _STAT) -> None:
        self._stat = stat
        self._before = self._read()
        self._said: tuple[float | None, tuple[float, ...]] = (None, ())

    def sample(self) -> tuple[float | None, tuple[float, ...]]:
        """Percent of all of them, and whole percents of each by its number; looks too close together say the same."""
        before, now = self._before, self._read()
        both = [name for name in now if name in before]
        percents = {name: busy for name in both if (busy := _percent(before[name], now[name])) is not None}
        if "cpu" in percents:
            self._before = now
            self._said = percents.pop("cpu"), tuple(float(round(percents.get(name, 0.0))) for name in both[1:])
        return self._said

    def busy_s(self, cores: Collection[int]) -> float:
        """Seconds for which these cores were busy, each counted, since the machine came up."""
        ticks = self._read()
        both = [ticks[name] for core in cores if (name := f"cpu{core}") in ticks]
        return sum(passed - idle for passed, idle in both) / _TICKS_PER_S

    def _read(self) -> dict[str, tuple[int, int]]:
        """Ticks in all and idle, of "cpu" (all of them, first) and of "cpu0" and so on that are online."""
        found = {}
        try:
            lines = self._stat.read_text(encoding="ascii").splitlines()
        except OSError:
            return {}
        for line in lines:
            if not line.startswith("cpu"):
                break
            name, *words = line.split()
            ticks = [int(word) for word in words[:_USER_TO_STEAL]]
            found[name] = sum(ticks), sum(ticks[at] for at in _IDLE)
        return found


def read_memory() -> Memory:
    """As the kernel counts it. Raises `OSError`."""
    found = {}
    for line in _MEMINFO.read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        found[name] = int(rest.split()[0]) * _KIB
    total, swap = found["MemTotal"], found.get("SwapTotal", 0)
    return Memory(total, min(total, found.get("MemAvailable", 0)), swap, swap - found.get("SwapFree", 0))


def _percent(before: tuple[int, int], now: tuple[int, int]) -> float | None:
    """None where no time passed. Idle time may run back on some machines, by a tick or so."""
    passed, idle = now[0] - before[0], now[1] - before[1]
    return None if passed <= 0 else min(100.0, max(0.0, 100.0 * (passed - idle) / passed))
