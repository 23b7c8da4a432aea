"""One env worker as the trainer sees it: started, asked, waited for with patience, and named when it fails.

A worker is started by exec, never by fork: a forked one would hold whatever the trainer's threads held just then.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mission_tui.envs.channel import BEGIN, ERROR, QUIT, Assignment, Channel, Raised, frame
from mission_tui.run_module import module_words
from mission_tui.trainer.failures import EnvError
from mission_tui.trainer.vec_env.worker_exit import OomKills, WorkerStderr, exit_reason, quote

SLICE_S = 0.25
_LAST_BREATH_S = 2.0
_KILLED_S = 2.0
_TIMES_LONGEST = 20.0
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_USUAL_WEIGHT = 0.05


@dataclass(slots=True)
class Patience:
    """How long an answer may take: `floor_s`, or 20 times the longest so far; `first_s` while there was none.

    `usual_s` is a moving average, for the sentence.
    """

    floor_s: float
    first_s: float
    longest_s: float | None = None
    usual_s: float = 0.0

    @property
    def limit_s(self) -> float:
        return self.first_s if self.longest_s is None else max(self.floor_s, _TIMES_LONGEST * self.longest_s)

    def took(self, seconds: float) -> None:
        """Learn from an answer that came; one that took longer than allowed came after a sleep of the machine."""
        if seconds > self.limit_s:
            return
        if self.longest_s is None:
            self.usual_s = seconds
        if self.longest_s is None or seconds > self.longest_s:
            self.longest_s = seconds
        self.usual_s += _USUAL_WEIGHT * (seconds - self.usual_s)


class WorkerProcess:
    """The process of worker `assignment.index` of `count`; `life` is its row of the shared counters."""

    def __init__(self, assignment: Assignment, count: int, life: NDArray[np.int64], words: WorkerStderr) -> None:
        self.index, self._life, self._stderr = assignment.index, life, words
        self._first, self._behind = assignment.first, assignment.behind
        last = self._behind - 1
        lanes = f"environment {last}" if last == self._first else f"environments {self._first}-{last}"
        self._name = f"env worker {self.index} of {count} ({lanes})"
        self._oom_kills = OomKills.read()
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours, SLICE_S)
        # The kernel's parent-death signal comes at the end of the starting thread, not of the process.
        lasting = threading.current_thread() is threading.main_thread()
        arguments = [os.environ.get("MISSION_TUI_RUN", "-"), f"{self.index}/{count}"]
        arguments += [str(os.getpid() if lasting else 0), str(theirs.fileno())]
        self._heard, stderr = words.open()
        with theirs, os.fdopen(stderr, "wb"):
            self._process = subprocess.Popen(
                [*module_words("mission_tui.envs.worker"), *arguments],
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=(theirs.fileno(), assignment.memory),
                env=os.environ | dict.fromkeys(_ONE_THREAD, "1"),
            )
        self.send(frame(BEGIN, assignment))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def steps_done(self) -> int:
        """Environment steps that it has done, readable while it works."""
        return int(self._life[1])

    def send(self, message: bytes) -> None:
        """Send a message of `frame`. Raises `EnvError` naming the worker when it is dead."""
        try:
            self._channel.send(message)
        except OSError as error:
            raise self._exit_error() from error

    def answer(self, doing: str, patience: Patience, look: Callable[[], None]) -> Any:
        """Wait for the answer: its content, or a `Raised`. `doing` is what was asked, for the sentence.

        `look` is called four times a second meanwhile and raises for another worker that died. Raises `EnvError` when
        this one is dead, or silent beyond `patience`.
        """
        slices = 0

        def silent() -> None:
            nonlocal slices
            # Slices are counted, not seconds: a machine that was suspended is no worker that hangs.
            slices += 1
            look()
            if slices * SLICE_S >= patience.limit_s:
                raise self._hang(doing, slices * SLICE_S, patience)

        try:
            kind, content = self._channel.receive(silent)
        except (EOFError, OSError) as error:
            raise self._exit_error() from error
        assert kind != ERROR or isinstance(content, Raised)
        return content

    def check(self) -> None:
        """Raise `EnvError` if the process is gone, whatever its socket says."""
        if self._process.poll() is not None:
            raise self._exit_error()

    def dismiss(self) -> None:
        """Ask it to close its environments and leave."""
        try:
            self._channel.send(frame(QUIT))
        except OSError:
            return
        finally:
            self._channel.close()

    def end(self, deadline_s: float) -> None:
        """See it gone by `deadline_s` (monotonic), with SIGKILL if it does not leave."""
        try:
            self._process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            # One that a driver holds does not even die of that; it is the keeper's to name.
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILLED_S)

    def _at(self) -> str:
        env = int(self._life[0])
        return f"environment {env}" if self._first <= env < self._behind else "no environment"

    def _exit_error(self) -> EnvError:
        try:
            # The socket closes a moment before the process can be reaped.
            code = self._process.wait(_LAST_BREATH_S)
        except subprocess.TimeoutExpired:
            return EnvError(f"{self._name} closed its socket while alive, in {self._at()}")
        how = exit_reason(code, OomKills.read().since(self._oom_kills))
        said = quote(self._stderr.of(self._heard))
        return EnvError(
            f"{self._name} {how} in {self._at()}; " + (f"it last said: {said}" if said else "it said nothing")
        )

    def _hang(self, doing: str, silent_s: float, patience: Patience) -> EnvError:
        usual = "" if patience.longest_s is None else f"; a usual {doing} takes {patience.usual_s:.2g} s"
        return EnvError(
            f"{self._name}, pid {self.pid}, hangs in the {doing} of {self._at()}: silent for {silent_s:.3g} s{usual}"
        )
