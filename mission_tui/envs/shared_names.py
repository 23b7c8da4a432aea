"""Names of shared memory that environments make, written down as they are made.

A named piece outlives every process; after SIGKILL nobody is left who would remove it. What Python's own
`SharedMemory` creates in a trainer or an env worker is recorded in `attempts/N/shared-memory`, one line each: inode
and name. Only what stands there, with that inode, is ever removed by others.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

RECORD = "shared-memory"


def record_shared_names(environ: Mapping[str, str]) -> None:
    """From now on write down what this process and its forks create; without a run in `environ` nothing is done."""
    folder, attempt = environ.get("MISSION_TUI_RUN_DIR"), environ.get("MISSION_TUI_ATTEMPT")
    if not folder or not attempt:
        return
    try:
        memory: Any = importlib.import_module("_posixshmem")
    except ImportError:  # a Python without shared memory makes no names either
        return
    path, opened = Path(folder) / "attempts" / attempt / RECORD, memory.shm_open
    if getattr(opened, "records", None):
        return

    def shm_open(path_: str, flags: int, mode: int = 0o777) -> int:
        descriptor: int = opened(path_, flags, mode)
        if flags & os.O_CREAT:
            # A record that cannot be written must not cost an environment its memory.
            with suppress(OSError):
                _write_down(path, os.fstat(descriptor).st_ino, path_.lstrip("/"))
        return descriptor

    replaced: Any = shm_open
    replaced.records = True
    memory.shm_open = replaced


def _write_down(path: Path, inode: int, name: str) -> None:
    # One write of one line: workers append to the same file at the same time.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, os.fsencode(f"{inode} {name}\n"))
    finally:
        os.close(descriptor)
