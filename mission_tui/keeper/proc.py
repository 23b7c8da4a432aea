"""Processes as the kernel knows them: `/proc`, pidfds and the subreaper flag.

A signal leaves here only after the receiver was shown to be the process that was meant; a number proves nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "Process",
    "become_subreaper",
    "boot_id",
    "descendants",
    "oom_kills",
    "pidfd_inode",
    "read_process",
    "send",
    "wait_channel",
]

PR_SET_CHILD_SUBREAPER = 36


class Process(NamedTuple):
    """One process: state letter, parent, session, and start time in clock ticks after boot."""

    pid: int
    state: str
    parent: int
    session: int
    start_time: int


def read_process(pid: int) -> Process | None:
    """What `/proc/PID/stat` says, None if there is no such process."""
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name may hold spaces, brackets and newlines; only the last bracket of the line is the kernel's own.
    fields = raw[raw.rindex(b")") + 2 :].split()
    return Process(pid, fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def descendants(root: int) -> list[Process]:
    """Every process below `root`, zombies included."""
    children: dict[int, list[Process]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (process := read_process(int(entry.name))):
            children.setdefault(process.parent, []).append(process)
    found = list(children.get(root, ()))
    for process in found:
        found.extend(children.get(process.pid, ()))
    return found


def send(process: Process, number: signal.Signals) -> bool:
    """Send signal `number` to `process` if that is still who has its number; says whether it was sent."""
    try:
        descriptor = _open_pidfd(process.pid)
    except ProcessLookupError:
        return False
    try:
        now = read_process(process.pid)
        # The start time has steps of 10 ms, so the parent must fit too; orphans of the tree become the keeper's.
        if now is None or now.start_time != process.start_time or now.parent not in (process.parent, os.getpid()):
            return False
        if descriptor is None:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return True


def _open_pidfd(pid: int) -> int | None:
    """A descriptor for process `pid`, None where kernel or sandbox refuse them. Raises `ProcessLookupError`."""
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno == errno.ESRCH:
            raise
        return None


def pidfd_inode(pid: int) -> int | None:
    """The inode that pidfds of `pid` have for its whole life; None on kernels where all pidfds share one."""
    try:
        descriptor = _open_pidfd(pid)
    except ProcessLookupError:
        return None
    if descriptor is None:
        return None
    anonymous = os.eventfd(0)
    try:
        status = os.fstat(descriptor)
        return status.st_ino if status.st_dev != os.fstat(anonymous).st_dev else None
    finally:
        os.close(descriptor)
        os.close(anonymous)


def boot_id() -> str:
    """The id that this boot of the machine has."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def wait_channel(pid: int) -> str:
    """The kernel function that `pid` waits in, empty where the kernel does not tell."""
    try:
        return Path(f"/proc/{pid}/wchan").read_text(encoding="ascii")
    except OSError:
        return ""


def oom_kills() -> int | None:
    """How many processes of this control group the kernel has killed for memory so far; None where nobody counts."""
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        own = next(line[3:] for line in groups if line.startswith("0::"))
        events = Path(f"/sys/fs/cgroup{own}/memory.events").read_text(encoding="ascii").split()
        return int(events[events.index("oom_kill") + 1])
    except (OSError, StopIteration, ValueError):
        return None


def become_subreaper() -> None:
    """From now on orphans of this process's tree become its children, however they were started."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")
