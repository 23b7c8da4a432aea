"""The kill ladder: from a polite TERM to the trainer alone up to a KILL of everything below the keeper.

Nothing is sent to a process before it was verified, no rung waits for ever, and the keeper ends only when nothing of
the run is left - or when it can say what is.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from mission_tui.keeper.proc import descendants, send
from mission_tui.procfs import Stat

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
