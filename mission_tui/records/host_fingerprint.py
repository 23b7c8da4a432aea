"""What tells this machine from another, as far as speeds go: its name, processor, cores that may be used, and GPUs."""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from pathlib import Path

__all__ = ["host_fingerprint"]

_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
_GPU = re.compile(r"^Model:\s*(.+)$", re.MULTILINE)


def host_fingerprint() -> dict[str, str]:
    """By name, only what can be found out: `host`, `cores`, `cpu`, `gpus`. Asks no driver, so it cannot hang."""
    found = {"host": socket.gethostname(), "cores": str(len(os.sched_getaffinity(0)))}
    if cpu := _first(_MODEL, Path("/proc/cpuinfo")):
        found["cpu"] = cpu
    gpus = [_first(_GPU, path) for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))]
    if gpus:
        found["gpus"] = ", ".join(gpu or "unknown" for gpu in gpus)
    return found


def _first(pattern: re.Pattern[str], path: Path) -> str:
    with suppress(OSError):
        match = pattern.search(path.read_text(encoding="utf-8", errors="replace"))
        if match:
            return match[1].strip()
    return ""
