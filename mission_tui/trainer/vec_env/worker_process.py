"""One env worker as the trainer sees it: started, asked, waited for with patience, and named when it fails.

A worker is started by exec, never by fork: a forked one would hold whatever the trainer's threads held just then. How
it ended (crash, kill, memory, exit) is told from its exit status, from what the kernel counts and from the last it said
on stderr: one that dies in native code leaves no exception, only these lines. They are passed on to the attempt's log
as they come; one thread drains all of them, so that no worker ever waits for the trainer to read.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mission_tui.envs.channel import BEGIN, ERROR, QUIT, Assignment, Channel, Raised, Spin, frame, spins
from mission_tui.fleet.text import clean
from mission_tui.run_module import module_words
from mission_tui.trainer.failures import EnvError, EnvMemoryError

_KEPT_BYTES = 8192
_READ_BYTES = 1 << 16
_SETTLE_S = 0.5
_QUOTED_CHARACTERS = 200
_STDERR = 2
_FATAL = "Fatal Python error"

SLICE_S = 0.25
_LAST_BREATH_S = 2.0
_KILLED_S = 2.0
_TIMES_LONGEST = 20.0
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_USUAL_WEIGHT = 0.05


@dataclass(frozen=True, slots=True)
class OomKills:
    """How many processes the kernel has ended for lack of memory: in our control group and on the machine."""

    group: int | None
    machine: int | None

    @classmethod
    def read(cls, root: Path = Path("/")) -> OomKills:
        """As counted up to now, by control groups of either version and by `/proc/vmstat`."""
        return cls(_of_group(root), _counted(root / "proc/vmstat"))

    def since(self, before: OomKills) -> OomKills:
        """How many more than `before`."""
        return OomKills(_more(self.group, before.group), _more(self.machine, before.machine))


def exit_reason(code: int, meanwhile: OomKills) -> str:
    """What "env worker 3" did. `code` is as `Popen` gives it, `meanwhile` since the worker began."""
    if code >= 0:
        return f"ended with exit code {code} (os._exit)" if code else "ended with exit code 0 without being asked to"
    name = _name(-code)
    if -code != signal.SIGKILL:
        return f"died ({name})"
    if meanwhile.group:
        return f"was killed by the kernel for lack of memory ({name})"
    if meanwhile.machine:
        return f"was killed ({name}), and the kernel killed for lack of memory on this machine meanwhile"
    return f"was killed ({name})"


def _name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name}, signal {number}"
    except ValueError:
        return f"signal {number}"


def _of_group(root: Path) -> int | None:
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if "memory" in controllers.split(","):
            mounted = root / "sys/fs/cgroup/memory"
            own = _counted(mounted / group.lstrip("/") / "memory.oom_control")
            # In a container the group is often mounted as the root of what is seen.
            return own if own is not None else _counted(mounted / "memory.oom_control")
    unified = next((line.removeprefix("0::/") for line in lines if line.startswith("0::")), None)
    return None if unified is None else _counted(root / "sys/fs/cgroup" / unified / "memory.events")


def _counted(path: Path) -> int | None:
    """The number behind the word `oom_kill` in the file."""
    try:
        words = path.read_text(encoding="ascii").split()
        return int(words[words.index("oom_kill") + 1])
    except (OSError, ValueError, IndexError):
        return None


def _more(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


class WorkerStderr:
    """The stderr of all workers of a training."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._wake = os.eventfd(0)
        self._poll.register(self._wake, select.EPOLLIN)
        self._kept: dict[int, bytes] = {}
        self._ended: dict[int, threading.Event] = {}
        self._thread = threading.Thread(target=self._drain, name="last-words", daemon=True)
        self._thread.start()

    def open(self) -> tuple[int, int]:
        """A pipe: the end to ask `of` about, and the end for a worker's stderr, which the caller closes."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._kept[reader], self._ended[reader] = b"", threading.Event()
        self._poll.register(reader, select.EPOLLIN)
        return reader, writer

    def of(self, reader: int) -> str:
        """The end of what was said, after the last of it had half a second to arrive."""
        if reader in self._ended:
            self._ended[reader].wait(_SETTLE_S)
        return self._kept.get(reader, b"").decode("utf-8", "replace")

    def close(self) -> None:
        """Stop listening, also to a process that still holds the other end of a pipe."""
        if self._poll.closed:
            return
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._poll.close()
        for descriptor in (self._wake, *self._ended):
            os.close(descriptor)
        self._ended.clear()

    def _drain(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._wake:
                    return
                self._take(descriptor)

    def _take(self, reader: int) -> None:
        part = b""
        with suppress(BlockingIOError):
            part = os.read(reader, _READ_BYTES)
            if not part:
                self._poll.unregister(reader)
                self._ended[reader].set()
        if part:
            self._kept[reader] = (self._kept[reader] + part)[-_KEPT_BYTES:]
            # A log that cannot be written costs its lines and nothing else.
            with suppress(OSError):
                os.write(_STDERR, part)


def quote(said: str) -> str:
    """The lines of `said` that tell most, as one: a fatal error with the place it came from, else the last line."""
    lines = [line for line in (clean(line, _QUOTED_CHARACTERS) for line in said.splitlines()) if line]
    fatal = next((number for number, line in enumerate(lines) if line.startswith(_FATAL)), None)
    if fatal is None:
        return lines[-1] if lines else ""
    place = next((line for line in lines[fatal:] if line.startswith("File ")), "")
    return clean(f"{lines[fatal]} {place}", _QUOTED_CHARACTERS)


@dataclass(slots=True)
class AnswerTimeout:
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
        self._channel = Channel(ours, SLICE_S, Spin() if spins(count + 1) else None)
        # The kernel's parent-death signal comes at the end of the starting thread, not of the process.
        lasting = threading.current_thread() is threading.main_thread()
        arguments = [os.environ.get("MISSION_TUI_RUN", "-"), f"{self.index}/{count}"]
        self._steps = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        arguments += [str(os.getpid() if lasting else 0), str(theirs.fileno()), str(self._steps)]
        try:
            self._heard, stderr = words.open()
            with theirs, os.fdopen(stderr, "wb"):
                self._process = subprocess.Popen(
                    [*module_words("mission_tui.envs.worker"), *arguments],
                    stdin=subprocess.DEVNULL,
                    stderr=stderr,
                    pass_fds=(theirs.fileno(), assignment.memory, self._steps),
                    env=os.environ | dict.fromkeys(_ONE_THREAD, "1"),
                )
        except BaseException:
            os.close(self._steps)
            raise
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

    def step(self) -> None:
        """Ask for a step; of one that is dead `answer` tells. Raises `EnvError` once it was dismissed."""
        try:
            os.eventfd_write(self._steps, 1)
        except (OSError, ValueError) as error:
            raise self._exit_error() from error

    def answer(self, doing: str, patience: AnswerTimeout, look: Callable[[], None]) -> Any:
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
            if self._steps >= 0:
                os.close(self._steps)
            self._steps = -1  # its number may be another file's from here on

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
        meanwhile = OomKills.read().since(self._oom_kills)
        how = exit_reason(code, meanwhile)
        said = quote(self._stderr.of(self._heard))
        starved = -code == signal.SIGKILL and meanwhile.group
        return (EnvMemoryError if starved else EnvError)(
            f"{self._name} {how} in {self._at()}; " + (f"it last said: {said}" if said else "it said nothing")
        )

    def _hang(self, doing: str, silent_s: float, patience: AnswerTimeout) -> EnvError:
        usual = "" if patience.longest_s is None else f"; a usual {doing} takes {patience.usual_s:.2g} s"
        silent = f"{silent_s:.3g}" if silent_s < 999.5 else f"{silent_s:,.0f}"
        return EnvError(
            f"{self._name}, pid {self.pid}, hangs in the {doing} of {self._at()}: silent for {silent} s{usual}"
        )
