"""The keeper's two files, written so that a reader sees all of one or nothing: temporary sibling, fsync, rename."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from mission_tui.keeper.proc import Process, boot_id, pidfd_inode

__all__ = ["exit_record", "identity_record", "write_json", "write_stubbornly"]

TRIES = 5
RETRY_S = 0.5


def identity_record(attempt: int, nonce: str, keeper: Process, trainer: Process) -> dict[str, Any]:
    """The contents of `identity.json`: enough to tell both processes from any later ones with their numbers."""
    return {
        "boot_id": boot_id(),
        "uid": os.getuid(),
        "session": keeper.session,
        "nonce": nonce,
        "attempt": attempt,
        **{
            role: {"pid": who.pid, "start_time": who.start_time, "pidfd_inode": pidfd_inode(who.pid)}
            for role, who in (("keeper", keeper), ("trainer", trainer))
        },
        "started_t": time.time(),
    }


def exit_record(attempt: int, **facts: Any) -> dict[str, Any]:
    """The contents of `exit.json`; what `facts` do not say did not happen."""
    nothing: dict[str, Any] = {
        "code": None,
        "signal": None,
        "asked": None,
        "escalated": False,
        "swept": [],
        "left": [],
        "unlinked": [],
        "oom_killed": False,
        "start_error": None,
        "last_output": "",
    }
    return {"attempt": attempt, "ended_t": time.time(), **nothing, **facts}


def write_json(path: Path, table: dict[str, Any]) -> None:
    """Make `path` hold `table`, durably. Raises `OSError` with `path` as it was."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(table, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_stubbornly(path: Path, table: dict[str, Any]) -> bool:
    """Like `write_json`, but a full disk gets a few seconds to recover; says whether it was written in the end."""
    for _ in range(TRIES):
        try:
            write_json(path, table)
        except OSError:
            time.sleep(RETRY_S)
        else:
            return True
    return False
