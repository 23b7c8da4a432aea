"""Clocks besides the machine's own: seconds since it came up, and how far unix time is ahead of the monotonic clock.

The boot clock counts sleep too and nobody can set it: durations are measured by it. Cells are kept on the monotonic
clock.
"""

from __future__ import annotations

import os
import time

TRIES = 3


def unix_ahead() -> float:
    """Seconds to add to a monotonic time. Of a few tries the least interrupted one counts."""
    tries = []
    for _ in range(TRIES):
        before, unix, after = time.monotonic(), time.time(), time.monotonic()
        tries.append((after - before, unix - (before + after) / 2))
    return min(tries)[1]


def boottime() -> float:
    """Now."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def began_at(start_time: int) -> float:
    """When a process began, by field 22 of its stat."""
    return start_time / os.sysconf("SC_CLK_TCK")
