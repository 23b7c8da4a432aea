"""When a disk will be full at the pace at which it has filled lately. Pure: every moment is an argument."""

from __future__ import annotations

from collections import deque
from statistics import linear_regression

__all__ = ["DiskTrend"]

STEP_S = 60.0
WINDOW = 360
"""Samples, one a minute: six hours."""

LEAST_SPAN_S = 600.0
LONGEST_S = 365 * 86400.0
FREED_SHARE = 0.05
"""A rise by this share of what was free is somebody's deletion, not the saw of checkpoints that come and go."""


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
