"""Cores, niceness, `ulimit`s and umask of the launching shell, set in the child that becomes the trainer.

What the kernel refuses is given as far as it goes: the supervisor knows beforehand and has said so.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

__all__ = ["apply_limits"]

SCHEDULERS = {"other": 0, "batch": 3, "idle": 5}


def apply_limits(limits: Mapping[str, Any]) -> None:
    """Have this process limited as the table in `launch.json` says. `ulimit`s come last: they may be narrow."""
    if isinstance(cores := limits.get("cores"), str):
        # A core that has been taken away from this machine is left out by the kernel; without any it refuses.
        with suppress(OSError, ValueError):
            os.sched_setaffinity(0, _cores(cores))
    if (policy := SCHEDULERS.get(str(limits.get("scheduler")))) is not None and policy != os.sched_getscheduler(0):
        with suppress(OSError):
            os.sched_setscheduler(0, policy, os.sched_param(0))
    if isinstance(nice := limits.get("nice"), int):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, nice)
    if isinstance(adjustment := limits.get("oom_score_adj"), int):
        with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib costs more
            file.write(str(adjustment))
    if isinstance(umask := limits.get("umask"), int):
        os.umask(umask & 0o777)
    for name, (soft, hard) in dict(limits.get("rlimits") or {}).items():
        if (number := getattr(resource, f"RLIMIT_{name.upper()}", None)) is not None:
            _limit(number, soft, hard)


def _limit(number: int, soft: int, hard: int) -> None:
    with suppress(OSError, ValueError):
        resource.setrlimit(number, (soft, hard))
        return
    _, most = resource.getrlimit(number)
    with suppress(OSError, ValueError):
        resource.setrlimit(number, (_lower(soft, most), _lower(hard, most)))


def _lower(wanted: int, most: int) -> int:
    if most == resource.RLIM_INFINITY:
        return wanted
    return most if wanted == resource.RLIM_INFINITY else min(wanted, most)


def _cores(said: str) -> set[int]:
    found: set[int] = set()
    for part in said.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
