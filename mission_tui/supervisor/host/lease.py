"""Who holds a run's lease, as the kernel tells it: the lock itself, not a number that somebody wrote into a file.

A copy of a run directory has the files of the original, so `identity.json` proves nothing there; the copy's `lease` is
another file, and no process of the original holds that. Read when a process is taken for one of a run, never on a beat.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

from msgspec import Struct

from mission_tui.errors import DamagedError
from mission_tui.fleet.text import clean
from mission_tui.plain_files import open_to_lock
from mission_tui.procfs import process_ids
from mission_tui.records.runs.attempt import place_of, read_launch, same_place
from mission_tui.records.runs.layout import RunDir

MARKS = ("MISSION_TUI_RUN", "MISSION_TUI_RUN_DIR", "MISSION_TUI_ATTEMPT", "MISSION_TUI_NONCE")
_COMMAND_CHARACTERS = 200
_NO_LEASE = (errno.EINVAL, errno.ELOOP, errno.EISDIR)
"""What opening a pipe, a socket or a device, a link, and a folder says."""


class Holder(Struct, frozen=True):
    """A visible process that holds a run's lease; `marked`: it was started with this run's variables."""

    pid: int
    marked: bool
    command: str


def is_free(run: RunDir) -> bool:
    """Whether nobody holds the run's lease, visible or not. Raises `OSError` where it is closed to us.

    What lies there may be nothing that can be held: then only who has held the file that was there before counts.
    """
    try:
        descriptor = open_to_lock(run.lease, make=False)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in _NO_LEASE:
            raise
        return not holders_of(run, "")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def holds(pid: int, run: RunDir) -> bool | None:
    """Whether process `pid` holds the run's lease; None when its descriptors cannot be read."""
    try:
        status = run.lease.stat(follow_symlinks=False)
    except OSError:
        status = None
    deleted = os.fsencode(run.lease) + b" (deleted)"
    try:
        for link, held in _leases(pid):
            # Somebody may have removed the file from under its holder; the kernel still knows where it was.
            if link == deleted or (status and (held.st_dev, held.st_ino) == (status.st_dev, status.st_ino)):
                return True
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return None
    return False


def holds_another(pid: int, run: RunDir) -> bool:
    """Whether process `pid` holds the lease of another directory of the run's name: an original, or a copy."""
    with suppress(OSError):
        named = any(os.path.basename(os.path.dirname(link)) == os.fsencode(run.id) for link, _ in _leases(pid))  # noqa: PTH119, PTH120
        return named and holds(pid, run) is False
    return False


def holders_of(run: RunDir, nonce: str) -> list[Holder]:
    """The visible processes that hold the run's lease. Looks at every process of this machine that may be looked at."""
    found = []
    for pid in process_ids():
        if pid != os.getpid() and holds(pid, run):
            marker = marker_of(pid)
            marked = marker is not None and is_marked_for(marker, run) and marker["MISSION_TUI_NONCE"] == nonce
            found.append(Holder(pid, marked, command_of(pid)))
    return found


def was_ordered_here(run: RunDir, attempt: int) -> bool:
    """Whether the attempt was started in this directory; in a copy made of hard links even the lease is the original's.

    Orders of earlier versions do not say.
    """
    try:
        order = read_launch(run.attempt(attempt).launch)
        seal = None if order is None else order.seal
        return seal is None or same_place(seal.place, place_of(run.path))
    except (DamagedError, OSError):
        return True


def is_marked_for(marker: dict[str, str], run: RunDir) -> bool:
    """Whether `marker` names this very directory."""
    return marker["MISSION_TUI_RUN_DIR"] == str(run.path)


def marker_of(pid: int) -> dict[str, str] | None:
    """The run's variables in the environment that the process was started with; None unless all are there."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - a Path costs more, for each process
            environ = file.read()
    except OSError:
        return None
    if b"MISSION_TUI_NONCE=" not in environ:
        return None
    pairs = (item.partition(b"=") for item in environ.split(b"\0"))
    marks = {os.fsdecode(key): os.fsdecode(value) for key, _, value in pairs if key.startswith(b"MISSION_TUI_")}
    return marks if all(mark in marks for mark in MARKS) else None


def command_of(pid: int) -> str:
    """The process's words as one line; empty when they cannot be read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123 - as above
            words = file.read()
    except OSError:
        return ""
    return clean(os.fsdecode(words.replace(b"\0", b" ")), _COMMAND_CHARACTERS)


def _leases(pid: int) -> Iterator[tuple[bytes, os.stat_result]]:
    """The leases, of any run, that process `pid` holds: where they are, and which files. Raises `OSError`."""
    folder = f"/proc/{pid}/fd"
    for number in os.listdir(folder):  # noqa: PTH208 - as above
        try:
            link = os.readlink(os.fsencode(f"{folder}/{number}"))  # noqa: PTH115 - as above
            # By the name first: nothing is asked of the file systems of all the others.
            if not link.endswith((b"/lease", b"/lease (deleted)")):
                continue
            status = os.stat(f"{folder}/{number}")  # noqa: PTH116 - as above
            if not _kernel_tells_locks() or _has_lock(pid, number):
                yield link, status
        except FileNotFoundError:
            continue  # closed since the list was made


def _has_lock(pid: int | str, number: int | str) -> bool:
    with open(f"/proc/{pid}/fdinfo/{number}", "rb") as file:  # noqa: PTH123 - as above
        return any(line.startswith(b"lock:") and b"FLOCK" in line for line in file)


@cache
def _kernel_tells_locks() -> bool:
    """Whether /proc says which descriptors have a lock; where it does not, that the lease is open has to do."""
    descriptor = os.memfd_create("lock", os.MFD_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return _has_lock("self", descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)
