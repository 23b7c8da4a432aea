"""What a short process gives up before it opens a file that it does not trust: memory, time, and new processes.

It bounds what a broken or hostile file can cost. It is no sandbox: code that ran here would still run as you.
"""

from __future__ import annotations

import resource
import shutil
from pathlib import Path

from mission_tui.errors import CheckpointError

__all__ = ["confine"]

CPU_S = 120
SPARE_BYTES = 1 << 30
PER_BYTE = 8
"""Of a file: its bytes, the tensors in them, the model's own and their copies, and the checkpoint being written."""


def confine(file: Path, folder: Path, records_bytes: int = 0) -> None:
    """Limit this process for the rest of its life to what reading `file` and writing `folder` from it needs, and a file
    of `records_bytes` besides.

    Only limits of the kernel, so nothing in the file can undo them: address space, processor time, size of files made,
    and no further process. Raises `CheckpointError` when the kernel refuses one of them.
    """
    size = file.stat().st_size if file.is_file() else 0
    mapped = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    room = min(max(2 * size, records_bytes) + (64 << 20), max(0, shutil.disk_usage(folder.parent).free))
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_AS, mapped + SPARE_BYTES + PER_BYTE * size)
    _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + CPU_S)
    _lower(resource.RLIMIT_FSIZE, room)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NPROC, 0)


def _lower(what: int, limit: int) -> None:
    bound = min([limit, *(own for own in resource.getrlimit(what) if own != resource.RLIM_INFINITY)])
    try:
        resource.setrlimit(what, (bound, bound))
    except (ValueError, OSError, OverflowError) as error:
        raise CheckpointError(f"this process cannot be confined; the file was not opened: {error}") from error
