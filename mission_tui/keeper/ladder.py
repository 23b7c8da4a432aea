"""The kill ladder, from a polite TERM to the trainer alone up to a KILL of everything below the keeper; and the
processes that it ends, as the kernel knows them: `/proc`, pidfds and the subreaper flag.

A signal leaves here only after the receiver was shown to be the process that was meant; a number proves nothing. No
rung waits for ever, and the keeper ends only when nothing of the run is left - or when it can say what is.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Literal

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


SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1)
TICK_S = 0.5
SWEEP_TICK_S = 0.05
SAVE_LOOK_S = 2.0
SAVE_GRACES = 4
KILL_WAIT_S = 2.0
SETTLE_S = 1.0
SWEEP_S = 8.0


def block_signals() -> None:
    """Keep the signals that mean something for `next_signal` to pick up, and ignore those a closing terminal sends."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (*SIGNALS, signal.SIGALRM))
    # An inherited SIG_IGN would make the kernel reap our children before we learn how they ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)


def next_signal(seconds: float) -> signal.Signals | None:
    """The first of `SIGNALS` that comes within `seconds`, None if none does; `block_signals` was called before.

    The alarm is the timeout. That of `sigtimedwait` may pass while this process is stopped, by SIGSTOP or with a whole
    job by Slurm: CPython (3.8 to 3.13) then returns whatever was in memory as the signal that came.
    """
    signal.setitimer(signal.ITIMER_REAL, seconds)
    arrived = signal.Signals(signal.sigwaitinfo((*SIGNALS, signal.SIGALRM)).si_signo)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return None if arrived == signal.SIGALRM else arrived


class Ladder:
    """Waits for one trainer and ends its tree. Afterwards it holds how that went.

    `status` is the trainer's wait status (None: it never ended), `peak_rss_bytes` the most memory it held, `asked` what
    the keeper was told, `escalated` that a graceful end ran out of time, `swept` who had to be killed after it, `left`
    who survived even that.
    """

    def __init__(self, trainer: Stat, grace_s: float, saved_bytes: Callable[[], int]) -> None:
        """`saved_bytes` is how much of an unfinished checkpoint is on disk: while that moves, a save is not cut off."""
        self.status: int | None = None
        self.peak_rss_bytes: int | None = None
        self.asked: Literal["term", "quit", "limit"] | None = None
        self.escalated = False
        self.swept: list[int] = []
        self.left: list[Stat] = []
        self._trainer = trainer
        self._grace_s = grace_s
        self._saved_bytes = saved_bytes
        self._saved = 0
        self._killing = False
        self._deadline = self._last_deadline = float("inf")

    def watch(self, each_tick: Callable[[], None]) -> None:
        """Return when the trainer has ended, or when even SIGKILL did not end it. Obeys TERM and QUIT meanwhile,
        and USR1, by which an engine warns of a time limit.
        """
        while self._has_children() and self.status is None:
            arrived = next_signal(TICK_S)
            if arrived is not None and arrived != signal.SIGCHLD:
                self.obey(arrived)
            elif time.monotonic() > self._deadline and not self._next_rung():
                return
            each_tick()

    def obey(self, number: signal.Signals) -> None:
        """What TERM, USR1 and QUIT ask of the keeper; the last of them once."""
        if number == signal.SIGTERM:
            self.ask()
        elif number == signal.SIGUSR1:
            self.ask("limit")
        elif number == signal.SIGQUIT and self.asked != "quit":
            self.kill()

    def ask(self, why: Literal["term", "limit"] = "term") -> None:
        """Let the trainer save and end: TERM to it alone, because its env workers would die of one in mid-save."""
        if self.asked is not None:
            return
        self.asked = why
        self._deadline = time.monotonic() + self._grace_s
        self._last_deadline = time.monotonic() + SAVE_GRACES * self._grace_s
        send(self._trainer, signal.SIGTERM)
        # A stopped process meets its TERM only when it goes on, and a trainer cannot save without its env workers.
        for process in descendants(os.getpid()):
            send(process, signal.SIGCONT)

    def kill(self) -> None:
        """End the trainer and its process group now."""
        self.asked = "quit"
        self._kill_group()

    def sweep(self) -> None:
        """Kill whatever the trainer left behind. Helpers that end by themselves within a moment are not counted."""
        now = time.monotonic()
        settled = now if self.asked == "quit" else now + SETTLE_S
        deadline = settled + SWEEP_S
        while self._has_children():
            now = time.monotonic()
            if now > deadline:
                self.left = [process for process in descendants(os.getpid()) if process.state not in "ZX"]
                return
            if now >= settled:
                for process in descendants(os.getpid()):
                    if process.state not in "ZX" and send(process, signal.SIGKILL) and process.pid not in self.swept:
                        self.swept.append(process.pid)
            signal.sigtimedwait([signal.SIGCHLD], SWEEP_TICK_S)

    def _next_rung(self) -> bool:
        """What follows a deadline that passed; False when there is nothing left to try."""
        if self._killing:
            return False
        before, self._saved = self._saved, self._saved_bytes()
        if self._saved != before and time.monotonic() < self._last_deadline:
            self._deadline = time.monotonic() + SAVE_LOOK_S
        else:
            self.escalated = True
            self._kill_group()
        return True

    def _kill_group(self) -> None:
        self._killing = True
        self._deadline = time.monotonic() + KILL_WAIT_S
        # Not waited for yet, so the kernel keeps the trainer's number, which is its group's too, from being reused.
        with suppress(ProcessLookupError):
            os.killpg(self._trainer.pid, signal.SIGKILL)
        send(self._trainer, signal.SIGKILL)

    def _has_children(self) -> bool:
        """Reap all that ended; whether a child is left. Orphans become our children, so no child means nobody."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._trainer.pid:
                self.status = status
                self.peak_rss_bytes = usage.ru_maxrss * 1024
