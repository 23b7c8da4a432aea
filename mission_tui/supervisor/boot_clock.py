"""Seconds since the machine came up, sleep included: what nobody can set, and what durations are measured by."""

from __future__ import annotations

import os
import time

__all__ = ["began_at", "boottime"]


def boottime() -> float:
    """Now."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def began_at(start_time: int) -> float:
    """When a process began, by field 22 of its stat."""
    return start_time / os.sysconf("SC_CLK_TCK")
