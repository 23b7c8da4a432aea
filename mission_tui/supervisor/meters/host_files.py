"""What /proc says of the whole machine, in one reading each: how busy every core was, and memory with swap."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Memory", "Processors", "read_memory"]

_STAT, _MEMINFO = Path("/proc/stat"), Path("/proc/meminfo")
_USER_TO_STEAL, _IDLE = 8, (3, 4)
"""Columns of /proc/stat that add up to all time (guests are part of user time already), and idle with waiting."""
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Memory:
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
