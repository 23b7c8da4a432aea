"""Who a process is: a recorded identity against what the kernel says now, in three values, failing closed. And who
holds a run's lease, as the kernel tells it: the lock itself, not a number that somebody wrote into a file.

The order is always: open a pidfd, read /proc, see that the pidfd still stands for a living process, and only then
signal, through that same pidfd. Where pidfds are refused, the start time is looked at before every signal instead, and
an exit is noticed by looking four times a second. A process that could not be read is `unverifiable` and is never
signalled.

A copy of a run directory has the files of the original, so `identity.json` proves nothing there; the copy's `lease` is
another file, and no process of the original holds that. Read when a process is taken for one of a run, never on a beat.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Literal, Protocol

from msgspec import Struct

from mission_tui.errors import DamagedError
from mission_tui.fleet.text import clean
from mission_tui.plain_files import open_to_lock
from mission_tui.procfs import boot_id, marker_of, process_ids, read_stat
from mission_tui.records.runs.attempt import place_of, read_launch, same_place
from mission_tui.records.runs.layout import RunDir

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


_COMMAND_CHARACTERS = 200
_NO_LEASE = (errno.EINVAL, errno.ELOOP, errno.EISDIR)
"""What opening a pipe, a socket or a device, a link, and a folder says."""


class Holder(Struct, frozen=True):
    """A visible process that holds a run's lease; `marked`: it was started with this run's variables."""

    pid: int
    marked: bool
    command: str


def lease_is_free(run: RunDir) -> bool:
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


def holds_lease(pid: int, run: RunDir) -> bool | None:
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
        return named and holds_lease(pid, run) is False
    return False


def holders_of(run: RunDir, nonce: str) -> list[Holder]:
    """The visible processes that hold the run's lease. Looks at every process of this machine that may be looked at."""
    found = []
    for pid in process_ids():
        if pid != os.getpid() and holds_lease(pid, run):
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
