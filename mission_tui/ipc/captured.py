"""The limits of this very process, to be sent with what it launches: see `fleet.process_limits`."""

from __future__ import annotations

import os
import re
from pathlib import Path

from mission_tui.fleet.process_limits import ProcessLimits, core_list

__all__ = ["SCHEDULERS", "captured_limits"]

SCHEDULERS = {"other": 0, "batch": 3, "idle": 5}
"""The kernel's numbers (sched(7)). Real-time policies are not among them: whoever has one wants it for one process."""

_RESET_ON_FORK = 0x40000000


def captured_limits() -> ProcessLimits:
    """Cores, niceness, `ulimit`s, umask as they are now. What cannot be read is left out; it never raises."""
    import resource

    names = (name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE")
    rlimits = {name.removeprefix("RLIMIT_").lower(): resource.getrlimit(getattr(resource, name)) for name in names}
    policy = os.sched_getscheduler(0) & ~_RESET_ON_FORK
    umask = re.search(r"^Umask:\s*([0-7]+)", _read("/proc/self/status"), re.MULTILINE)
    adjusted = _read("/proc/self/oom_score_adj").strip()
    return ProcessLimits(
        cores=core_list(os.sched_getaffinity(0)),
        nice=os.getpriority(os.PRIO_PROCESS, 0),
        scheduler=next((name for name, number in SCHEDULERS.items() if number == policy), None),
        # Asked of the kernel, not by setting another one: other threads may be making files.
        umask=int(umask[1], 8) if umask else None,
        oom_score_adj=int(adjusted) if adjusted.lstrip("-").isdigit() else None,
        rlimits=rlimits,
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
