"""Processes as the kernel knows them: `/proc`, pidfds and the subreaper flag.

A signal leaves here only after the receiver was shown to be the process that was meant; a number proves nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path

from mission_tui.procfs import Stat, process_ids, read_stat

PR_SET_CHILD_SUBREAPER = 36
LATELY_S = 10.0


def descendants(root: int) -> list[Stat]:
    """Every process below `root`, zombies included."""
    children: dict[int, list[Stat]] = {}
    for pid in process_ids():
        if process := read_stat(pid):
            children.setdefault(process.parent, []).append(process)
    found = list(children.get(root, ()))
    for process in found:
        found.extend(children.get(process.pid, ()))
    return found


def send(process: Stat, number: signal.Signals) -> bool:
    """Send signal `number` to `process` if that is still who has its number; says whether it was sent."""
    try:
        descriptor = _open_pidfd(process.pid)
    except ProcessLookupError:
        return False
    try:
        now = read_stat(process.pid)
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


def oom_kills(mount: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """How many processes of this control group the kernel has killed for memory so far; None where the kernel does not
    count.

    Version 1 of control groups counts them too, since Linux 4.13.
    """
    with suppress(OSError):
        for line in own.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                files = [mount / path.strip("/") / "memory.events"]
            elif "memory" in controllers.split(","):
                folder = mount / "memory"
                # In a namespace of its own a group sees a path that is not mounted here.
                files = [folder / path.strip("/") / "memory.oom_control", folder / "memory.oom_control"]
            else:
                continue
            for file in files:
                with suppress(OSError, ValueError):
                    words = file.read_text(encoding="ascii").split()
                    return int(words[words.index("oom_kill") + 1])
    return None


class OomWatch:
    """Whether the kernel killed for memory in this control group lately. Others are in it too: a SIGKILL from a hand
    is not the kernel's because another run met its own hours ago.
    """

    def __init__(self, count: Callable[[], int | None] = oom_kills) -> None:
        self._count = count
        self._before = self._newest = count() or 0
        self._looked_s = -inf

    def look(self, now_s: float) -> None:
        """At each tick, at `now_s` on the monotonic clock."""
        if now_s - self._looked_s >= LATELY_S:
            self._before, self._newest, self._looked_s = self._newest, self._count() or 0, now_s

    def lately(self) -> bool:
        """Whether it did since a moment that is `LATELY_S` to twice that ago."""
        return (self._count() or 0) > self._before


def become_subreaper() -> None:
    """From now on orphans of this process's tree become its children, however they were started. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")
