"""The keeper's files. Its two records are written so that a reader sees all of one or nothing: temporary sibling,
fsync, rename.

What the trainer prints lands in a file without anyone having to read it, and its growth has a cap: everyone writes with
O_APPEND, so the file can be cut while the trainer holds it open. Of named shared memory exactly what the attempt wrote
down itself is removed, when nothing of it lives.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from mission_tui.keeper.ladder import pidfd_inode
from mission_tui.plain_files import open_folder, open_fresh, open_to_append, read_plain
from mission_tui.procfs import Stat, boot_id

TRIES = 5
ROOM_BYTES = 32 << 10
RETRY_S = 0.5
OUTPUT_KEPT_BYTES = 64 << 10
OUTPUT_TAIL_BYTES = 4096
SHARED = Path("/dev/shm")  # noqa: S108 - where the kernel keeps named shared memory
NAMES_BYTES = 1 << 20


def signal_in(path: Path) -> signal.Signals | None:
    """The signal whose name is in the file at `path`, as whoever cannot send one asks; None for anything else."""
    with suppress(OSError):
        return {b"TERM": signal.SIGTERM, b"QUIT": signal.SIGQUIT}.get(read_plain(path, 16).strip())
    return None


def identity_record(attempt: int, nonce: str, keeper: Stat, trainer: Stat) -> dict[str, Any]:
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
        "peak_rss_bytes": None,
        "last_output": "",
    }
    return {"attempt": attempt, "ended_t": time.time(), **nothing, **facts}


def write_json(path: Path, table: dict[str, Any]) -> None:
    """Make `path` hold `table`, durably. Raises `OSError` with `path` as it was."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = open_fresh(temporary)
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
    folder = open_folder(path.parent)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def reserve_space(path: Path) -> None:
    """Set disk space aside for the record that `path` will be, so that a disk which fills up does not swallow it."""
    with suppress(OSError), os.fdopen(open_fresh(_room_of(path)), "wb") as file:
        # Random, not zeros: a file system that compresses must set it aside too.
        file.write(os.urandom(ROOM_BYTES))


def write_with_retries(path: Path, table: dict[str, Any]) -> bool:
    """Like `write_json`, with the room kept for it; a disk that is full all the same gets a few seconds to recover.

    Says whether it was written in the end.
    """
    with suppress(OSError):
        _room_of(path).unlink()
    for _ in range(TRIES):
        try:
            write_json(path, table)
        except OSError:
            time.sleep(RETRY_S)
        else:
            return True
    return False


def _room_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.room")


class Output:
    """`output.log` of an attempt. Past `cap_bytes` only the newest 64 KiB stay."""

    def __init__(self, path: Path, cap_bytes: int) -> None:
        self.descriptor = open_to_append(path)
        self._cap_bytes = max(cap_bytes, OUTPUT_KEPT_BYTES)

    def trim(self) -> None:
        """Cut the file if it passed its cap; its first line then says so."""
        size = os.fstat(self.descriptor).st_size
        if size <= self._cap_bytes:
            return
        # Waits for the write that is under way, as every change of a file does: cutting would wait for it too, and
        # then drop all of it that was not read before.
        with suppress(OSError):
            os.fchmod(self.descriptor, stat.S_IMODE(os.fstat(self.descriptor).st_mode))
        kept = self.tail(OUTPUT_KEPT_BYTES)
        note = f"[output passed {self._cap_bytes} bytes: only its last {len(kept)} bytes were kept]\n"
        # On a full disk the cut itself makes the room; should the rest not fit even then, the run matters more.
        with suppress(OSError):
            os.ftruncate(self.descriptor, 0)
            os.write(self.descriptor, note.encode() + kept)

    def tail(self, count: int = OUTPUT_TAIL_BYTES) -> bytes:
        """The last `count` bytes, fewer if there are not as many; none from a disk that cannot read them back."""
        size = os.fstat(self.descriptor).st_size
        with suppress(OSError):
            return os.pread(self.descriptor, count, max(0, size - count))
        return b""


def remove_shared_memory(record: Path) -> list[str]:
    """Remove what `record` (lines of inode and name) names and what still is that; the names removed."""
    removed = []
    with suppress(OSError):
        for line in read_plain(record, NAMES_BYTES).splitlines():
            number, _, name = line.partition(b" ")
            if number.isdigit() and name and b"/" not in name and _remove(SHARED / os.fsdecode(name), int(number)):
                removed.append(os.fsdecode(name))
    return removed


def _remove(path: Path, inode: int) -> bool:
    try:
        status = path.lstat()
        # A later piece of memory may have the name: then its inode is another.
        if not stat.S_ISREG(status.st_mode) or status.st_ino != inode or status.st_uid != os.getuid():
            return False
        path.unlink()
    except (OSError, ValueError):
        return False
    return True
