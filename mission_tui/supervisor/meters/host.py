"""The machine's meters, sampled once a second by one sampler for everybody."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from pathlib import Path
from statistics import linear_regression

from mission_tui.fleet.capacity.machine import Machine
from mission_tui.fleet.strips.cells import METER_LEVELS, SLOW_LEVELS, CellHistory
from mission_tui.fleet.views.snapshot import HostMeters, OtherProgram
from mission_tui.supervisor.meters.host_files import Memory, Processors, read_memory
from mission_tui.supervisor.meters.memory_group import group_memory

__all__ = ["DiskTrend", "HostSampler"]

_HISTORY = 60
_LONGEST_S = 10.0
STEP_S = 60.0
WINDOW = 360
"""Samples, one a minute: six hours."""

LEAST_SPAN_S = 600.0
LONGEST_S = 365 * 86400.0
FREED_SHARE = 0.05
"""A rise by this share of what was free is somebody's deletion, not the saw of checkpoints that come and go."""


class HostSampler:
    """Reads CPU, RAM, load and the free space of the runs root's disk; `cores` are those that may be used.

    `cpu` is a day of processor use in percent of all cores, on the monotonic clock; `recent`: the last minute of it.
    `meters` are a day of `ram` and `swap` in use and `disk` free, in bytes, and of the `load`, for who looks back.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._name = socket.gethostname()
        self.cores = len(os.sched_getaffinity(0))
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
        memory, free = _memory(), self.disk_free()
        busy, cores = self._processors.sample()
        load = os.getloadavg()[0]
        self._add_history(None if busy is None else round(busy, 1), memory, free, load)
        return HostMeters(
            name=self._name,
            cores=self.cores,
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
            disk_full_in_s=None if free is None else self._disk.observe(time.monotonic(), free),
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
        memory, group = _memory(), group_memory()
        total, available = (None, None) if memory is None else (memory.total, memory.available)
        if group is not None:
            total = group.limit if total is None else min(total, group.limit)
            available = group.left if available is None else min(available, group.left)
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


def _memory() -> Memory | None:
    try:
        return read_memory()
    except OSError:
        return None


class DiskTrend:
    """Free bytes of one disk over the last hours; whoever writes there counts."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque(maxlen=WINDOW)
        self._full_in_s: float | None = None

    def observe(self, t: float, free: int) -> float | None:
        """Take in `free` bytes at moment `t` (s); seconds until none is left, by the line through the samples.

        None while ten minutes were not seen, while the disk does not fill, or when that is more than a year away.
        """
        if self._seen and t - self._seen[-1][0] < STEP_S:
            return self._full_in_s
        if self._seen and free > self._seen[-1][1] * (1 + FREED_SHARE):
            self._seen.clear()
        self._seen.append((t, free))
        self._full_in_s = self._judged(free)
        return self._full_in_s

    def _judged(self, free: int) -> float | None:
        times, bytes_free = zip(*self._seen, strict=True)
        if times[-1] - times[0] < LEAST_SPAN_S:
            return None
        slope = linear_regression(times, bytes_free).slope
        return free / -slope if slope < 0 and free / -slope < LONGEST_S else None
