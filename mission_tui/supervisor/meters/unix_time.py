"""How far unix time is ahead of the monotonic clock, on which cells are kept."""

from __future__ import annotations

import time

__all__ = ["unix_ahead"]

TRIES = 3


def unix_ahead() -> float:
    """Seconds to add to a monotonic time. Of a few tries the least interrupted one counts."""
    tries = []
    for _ in range(TRIES):
        before, unix, after = time.monotonic(), time.time(), time.monotonic()
        tries.append((after - before, unix - (before + after) / 2))
    return min(tries)[1]
