"""Who a process is: a recorded identity against what the kernel says now, in three values, failing closed.

The order is always: open a pidfd, read /proc, see that the pidfd still stands for a living process, and only then
signal, through that same pidfd. A process that could not be read is `unverifiable` and is never signalled.
"""

from __future__ import annotations

import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

__all__ = ["Process", "Recorded", "Sighting", "Stat", "Verdict", "boot_id", "read_stat", "see", "verify"]

Verdict = Literal["ours", "stranger", "unverifiable"]

_TO_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9


class Recorded(Protocol):
    """What `identity.json` holds of a keeper or trainer: start time in clock ticks, inode None without pidfs."""

    @property
    def pid(self) -> int: ...
    @property
    def start_time(self) -> int: ...
    @property
    def pidfd_inode(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/PID/stat that identity and descent need; `start_time` in clock ticks since boot."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    start_time: int


@dataclass(frozen=True, slots=True)
class Process:
    """A living process held by a pidfd; whoever holds it closes it."""

    pid: int
    fd: int

    def alive(self) -> bool:
        """Whether the process has not exited; a zombie has."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return not poll.poll(0)

    def send(self, number: signal.Signals) -> bool:
        """Send `number` to this very process; False when it is gone."""
        return _send(self.fd, number, 0)

    def send_to_group(self, number: signal.Signals) -> bool:
        """Send `number` to the process group this process leads; False when nobody is left in it.

        Before Linux 6.9 the group number is used, which the kernel cannot have given away while the leader lives.
        """
        try:
            return _send(self.fd, number, _TO_GROUP)
        except OSError:
            if not self.alive():
                return False
            os.killpg(self.pid, number)
            return True

    def close(self) -> None:
        os.close(self.fd)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A verdict, and for `ours` the living process."""

    verdict: Verdict
    process: Process | None = None


def boot_id() -> str:
    """The kernel's name for this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def read_stat(pid: int) -> Stat | None:
    """The process's stat line; None when there is no such process. The name may hold spaces and brackets."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    rest = line[line.rindex(b")") + 2 :].split()
    return Stat(
        pid=pid,
        state=rest[0].decode("ascii"),
        parent=int(rest[1]),
        group=int(rest[2]),
        session=int(rest[3]),
        start_time=int(rest[19]),
    )


def see(pid: int) -> Process | None:
    """Hold whatever process has this number now; None when there is none. Raises `OSError` when it cannot be held."""
    try:
        return Process(pid, os.pidfd_open(pid))
    except ProcessLookupError:
        return None


def verify(recorded: Recorded, recorded_boot: str) -> Sighting:
    """Whether the recorded process still lives. A dead one is a `stranger`: its number belongs to nobody of ours."""
    if recorded_boot != boot_id():
        return Sighting("stranger")
    try:
        process = see(recorded.pid)
    except OSError:
        return Sighting("unverifiable")
    if process is None:
        return Sighting("stranger")
    verdict = _compare(process, recorded)
    if verdict != "ours":
        process.close()
        return Sighting(verdict)
    return Sighting("ours", process)


def _compare(process: Process, recorded: Recorded) -> Verdict:
    try:
        stat = read_stat(process.pid)
        inode = os.fstat(process.fd).st_ino
    except (OSError, ValueError):
        return "unverifiable"
    if stat is None or stat.start_time != recorded.start_time:
        return "stranger"
    if recorded.pidfd_inode is not None and recorded.pidfd_inode != inode:
        return "stranger"
    return "ours" if process.alive() else "stranger"


def _send(fd: int, number: signal.Signals, flags: int) -> bool:
    try:
        signal.pidfd_send_signal(fd, number, None, flags)
    except ProcessLookupError:
        return False
    return True
