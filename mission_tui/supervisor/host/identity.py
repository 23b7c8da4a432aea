"""Who a process is: a recorded identity against what the kernel says now, in three values, failing closed.

The order is always: open a pidfd, read /proc, see that the pidfd still stands for a living process, and only then
signal, through that same pidfd. Where pidfds are refused, the start time is looked at before every signal instead, and
an exit is noticed by looking four times a second. A process that could not be read is `unverifiable` and is never
signalled.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Literal, Protocol

from msgspec import Struct

from mission_tui.procfs import boot_id, read_stat

Verdict = Literal["ours", "stranger", "unverifiable"]

NO_PIDFD = -1
REFUSED = frozenset({errno.ENOSYS, errno.EPERM, errno.EACCES})
"""What `pidfd_open` says where the kernel has none (before Linux 5.3), or a sandbox blocks it."""

_TO_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9


class Recorded(Protocol):
    """What `identity.json` holds of a keeper or trainer: start time in clock ticks, inode None without pidfs."""

    @property
    def pid(self) -> int: ...
    @property
    def start_time(self) -> int: ...
    @property
    def pidfd_inode(self) -> int | None: ...


class Process(Struct, frozen=True):
    """A living process held by a pidfd; whoever holds it closes it.

    Where kernel or sandbox refuse pidfds, `fd` is `NO_PIDFD` and its `start_time` (clock ticks) tells it from others.
    """

    pid: int
    fd: int
    start_time: int = 0

    def alive(self) -> bool:
        """Whether the process has not exited; a zombie has."""
        if self.fd == NO_PIDFD:
            return self._still_there()
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return not poll.poll(0)

    def send(self, number: signal.Signals) -> bool:
        """Send `number` to this very process; False when it is gone."""
        if self.fd == NO_PIDFD:
            return self._still_there() and _kill(os.kill, self.pid, number)
        return _send(self.fd, number, 0)

    def send_to_group(self, number: signal.Signals) -> bool:
        """Send `number` to the process group this process leads; False when no process is left in it.

        Before Linux 6.9 the group number is used, which the kernel cannot have given away while the leader lives.
        """
        if self.fd != NO_PIDFD:
            with suppress(OSError):
                return _send(self.fd, number, _TO_GROUP)
        return self.alive() and _kill(os.killpg, self.pid, number)

    def close(self) -> None:
        if self.fd != NO_PIDFD:
            os.close(self.fd)

    def _still_there(self) -> bool:
        with suppress(OSError, ValueError):
            stat = read_stat(self.pid)
            return stat is not None and stat.start_time == self.start_time and stat.state not in "ZX"
        return False


class Verification(Struct, frozen=True):
    """A verdict, and for `ours` the living process."""

    verdict: Verdict
    process: Process | None = None


def open_process(pid: int) -> Process | None:
    """Hold whatever process has this number now; None when there is none. Raises `OSError` when it cannot be held."""
    try:
        return Process(pid, os.pidfd_open(pid))
    except ProcessLookupError:
        return None
    except OverflowError:
        return None  # no process has a number that the kernel cannot be told
    except OSError as error:
        if error.errno not in REFUSED:
            raise
    stat = read_stat(pid)
    return None if stat is None else Process(pid, NO_PIDFD, stat.start_time)


def verify(recorded: Recorded, recorded_boot: str) -> Verification:
    """Whether the recorded process still lives. A dead one is a `stranger`: its number is no process of ours."""
    if recorded_boot != boot_id():
        return Verification("stranger")
    try:
        process = open_process(recorded.pid)
    except OSError:
        return Verification("unverifiable")
    if process is None:
        return Verification("stranger")
    verdict = _compare(process, recorded)
    if verdict != "ours":
        process.close()
        return Verification(verdict)
    return Verification("ours", process)


def _compare(process: Process, recorded: Recorded) -> Verdict:
    try:
        stat = read_stat(process.pid)
        inode = None if process.fd == NO_PIDFD else os.fstat(process.fd).st_ino
    except (OSError, ValueError):
        return "unverifiable"
    if stat is None or stat.start_time != recorded.start_time:
        return "stranger"
    if recorded.pidfd_inode is not None and inode is None:
        return "unverifiable"  # a number may come back within the 10 ms of one start time
    if recorded.pidfd_inode is not None and recorded.pidfd_inode != inode:
        return "stranger"
    return "ours" if process.alive() else "stranger"


def _send(fd: int, number: signal.Signals, flags: int) -> bool:
    try:
        signal.pidfd_send_signal(fd, number, None, flags)
    except ProcessLookupError:
        return False
    return True


def _kill(how: Callable[[int, int], None], number: int, sent: signal.Signals) -> bool:
    try:
        how(number, sent)
    except ProcessLookupError:
        return False
    return True


EXIT_LOOK_S = 0.25


class Exits:
    """Who is listened for. Each process has one listener; a later one takes the place of an earlier."""

    def __init__(self) -> None:
        self._forget: dict[Process, Callable[[], object]] = {}

    def watch(self, process: Process, gone: Callable[[], None]) -> None:
        """Call `gone` once when the process has exited."""
        loop = asyncio.get_running_loop()
        self.forget(process)

        def exited() -> None:
            self.forget(process)
            gone()

        def look() -> None:
            if process.alive():
                self._forget[process] = loop.call_later(EXIT_LOOK_S, look).cancel
            else:
                exited()

        if process.fd != NO_PIDFD:
            loop.add_reader(process.fd, exited)
            self._forget[process] = partial(loop.remove_reader, process.fd)
        else:
            self._forget[process] = loop.call_later(EXIT_LOOK_S, look).cancel

    def forget(self, process: Process) -> None:
        """Listen no more; must come before the process is let go."""
        if (forget := self._forget.pop(process, None)) is not None:
            forget()
