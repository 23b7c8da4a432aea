"""The preloaders of this supervisor, one for each interpreter, and whether an attempt can be forked off one.

Speed only: whatever stands against it, the attempt is started anew, which takes a second longer, and the reason is
kept with it. Nothing of a run depends on the process that it was forked from.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import mission_tui
from mission_tui.errors import EX_FAILED
from mission_tui.fleet.process_limits import ProcessLimits
from mission_tui.fleet.specs.secrecy import is_harmless
from mission_tui.preloader import ONES_OWN, PADDING, read_at_load
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.run_module import module_words
from mission_tui.supervisor.host.children import Child, Running, Task, limit_process, start_child
from mission_tui.supervisor.host.identity import Process, open_process
from mission_tui.supervisor.host.machine import memory_of_group
from mission_tui.supervisor.launchers.order import keeper_words, thread_variables

AFTER_LAUNCH_S = 3.0
"""A preloader loads for a second: not while the run that it came too late for does the same."""

AFTER_ATTACH_S = 0.5
"""Nor while a screen paints for the first time."""

ANSWER_S = 1.0
LOADING_S = 30.0
MOST_WORDS = 64 << 10
"""What the request for a short process may take: a message arrives whole, or not at all."""

AGAIN_S = 60.0
LEAST_FREE_BYTES = 2 << 30
ROOM_BYTES = 96 << 10
"""A variable can be no longer than 128 KiB; two of them hold what a usual environment takes twenty times."""

MODE = "MISSION_TUI_PRELOAD"
"""`0`: nothing is preloaded. `always`: a launch waits for the preloader, so that tests know which road it takes."""

log = logging.getLogger(__name__)


class NotPreloadedError(Exception):
    """Why an attempt is not forked off a preloader; whoever wants it starts it anew."""


class Preloader:
    """One such process, from its start to its end."""

    def __init__(self, python: str, environ: Mapping[str, str], name: str) -> None:
        """Start it. Raises `OSError`."""
        self._environ = dict(environ)
        self.over = self.retired = ""
        self._read: frozenset[str] | None = None
        self._room = 0
        self._tasks: dict[int, _ForkedTask] = {}
        self._loop = asyncio.get_running_loop()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.setblocking(False)
        padding = {f"{PADDING}{number}": "." * ROOM_BYTES for number in range(2)}
        with theirs:
            # The last word is room for what a fork is called, in `ps` and for whoever looks for its keeper.
            words = [*module_words("mission_tui.preloader", python), str(theirs.fileno()), name, "." * 8192]
            self._child: Child = start_child(
                words, self._ended, cwd="/", env={**environ, **padding}, detached=True, passes=(theirs.fileno(),)
            )
        self._loop.add_reader(self._channel, self._read_channel)
        self._patience = self._loop.call_later(LOADING_S, self.end, f"it was not ready after {LOADING_S:.0f} s")

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def ready(self) -> bool:
        return self._read is not None and not self.over and not self.retired

    def objection(self, environ: Mapping[str, str]) -> str:
        """Why what has these variables cannot be forked off this process; empty if it can."""
        if why := self.over or self.retired:
            return f"the preloader has ended: {why}"
        if self._read is None:
            return "the preloader is loading"
        if differing := self.differing(environ):
            return f"{differing} is not what it was when the preloader loaded its libraries"
        if sum(len(os.fsencode(f"{name}={value}")) + 1 for name, value in environ.items()) > self._room:
            return "its variables are too long to be given to a fork"
        return ""

    def differing(self, environ: Mapping[str, str]) -> str:
        """A variable that was read while everything was loaded, and is another one in `environ`."""
        names = {name for name in (*environ, *self._environ) if read_at_load(name)} | (self._read or frozenset())
        return next((name for name in sorted(names) if environ.get(name) != self._environ.get(name)), "")

    def fork_keeper(self, words: Sequence[str], said: int) -> Process:
        """The keeper that these words name, held. `said` is its standard input. Raises `NotPreloadedError`."""
        return self._fork({"keeper": list(words)}, [said])

    def fork_task(self, task: Task, on_exit: Callable[[int], None], stdin: int, stderr: int) -> Running:
        """The short process of `task`. Raises `NotPreloadedError`."""
        umask = None if task.limits is None or task.limits.umask is None else task.limits.umask & 0o777
        words = {"argv": list(task.argv), "cwd": task.cwd, "environ": dict(task.environ), "umask": umask}
        if len(json.dumps(words)) > MOST_WORDS:
            raise NotPreloadedError("its words and variables are too long for one message")
        asks = None
        if stdin == subprocess.PIPE:
            stdin, writing = os.pipe2(os.O_CLOEXEC)
            asks = os.fdopen(writing, "wb")
        reading, stdout = os.pipe2(os.O_CLOEXEC)
        says = os.fdopen(reading, "rb", buffering=0)
        try:
            process = self._fork(words, [stdin, stdout, stderr], task.limits)
        except NotPreloadedError:
            says.close()
            if asks is not None:
                asks.close()
            raise
        finally:
            os.close(stdout)
            if asks is not None:
                os.close(stdin)
        made = self._tasks[process.pid] = _ForkedTask(process, asks, says, on_exit)
        return made

    def _fork(
        self, words: Mapping[str, object], streams: Sequence[int], limits: ProcessLimits | None = None
    ) -> Process:
        """What is asked for, held. Raises `NotPreloadedError`, and forks nothing any more then: one that hangs must not
        wake up later and fork what was started anew meanwhile.
        """
        go, gone = os.pipe2(os.O_CLOEXEC)
        try:
            socket.send_fds(self._channel, [json.dumps(words).encode()], [go, *streams])
            answer = self._answer()
            # The fork waits for our byte, so its number is its own until it has it.
            process = open_process(int(answer["pid"])) if "pid" in answer else None
            if process is not None:
                if limits is not None:
                    limit_process(process.pid, limits)
                os.write(gone, b"g")
                return process
            why = str(answer.get("over", "its fork ended at once"))
            self.retire(why)
        except (OSError, ValueError) as error:
            why = f"it did not answer: {error}"
            self.end(why)
        finally:
            os.close(go)
            os.close(gone)
        raise NotPreloadedError(f"the preloader has ended: {why}")

    def _answer(self) -> dict[str, Any]:
        until = time.monotonic() + ANSWER_S
        try:
            while True:
                self._channel.settimeout(max(0.001, until - time.monotonic()))
                message = self._channel.recv(1 << 16)
                said: dict[str, Any] = json.loads(message) if message else {"over": "it ended by itself"}
                if "exit" not in said:
                    return said
                self._exited(said)
        finally:
            self._channel.setblocking(False)

    def _exited(self, said: Mapping[str, Any]) -> None:
        if (task := self._tasks.pop(int(said["exit"]), None)) is not None:
            # Never from inside a request for another fork.
            self._loop.call_soon(task.ended, int(said["code"]))
            if self.retired and not self._tasks:
                self._loop.call_soon(self.end, self.retired)

    def wait(self) -> None:
        """Until it is ready or over; the loop stands still meanwhile."""
        self._channel.settimeout(LOADING_S)
        with suppress(OSError):
            self._take(self._channel.recv(1 << 16))
        with suppress(OSError):
            self._channel.setblocking(False)

    def _read_channel(self) -> None:
        try:
            self._take(self._channel.recv(1 << 16))
        except BlockingIOError:
            return
        except OSError as error:
            self.end(str(error))

    def _take(self, message: bytes) -> None:
        said = dict(json.loads(message)) if message else {"over": "it ended by itself"}
        if "exit" in said:
            self._exited(said)
        elif said.get("ready"):
            self._read, self._room = frozenset(said["read"]), int(said["room"])
            self._patience.cancel()
        elif message:
            self.retire(str(said["over"]))
        else:
            self.end(str(said["over"]))

    def _ended(self, code: int) -> None:
        self.end(f"it ended with code {code}")

    def retire(self, why: str) -> None:
        """Fork nothing any more, and be over as soon as the short processes are whose end only it can tell."""
        self.retired = why
        if not self._tasks:
            self.end(why)

    def end(self, why: str) -> None:
        """Be over, and see it gone: one that hangs must not wake up later and fork what was started anew meanwhile."""
        if self.over:
            return
        self.over = why
        self._patience.cancel()
        self._loop.remove_reader(self._channel)
        self._channel.close()
        self._child.kill()
        for task in self._tasks.values():
            self._loop.call_soon(task.orphaned)
        self._tasks.clear()


class _ForkedTask:
    """A short process that is the preloader's child; that tells how it ended."""

    def __init__(
        self, process: Process, stdin: IO[bytes] | None, stdout: IO[bytes], on_exit: Callable[[int], None]
    ) -> None:
        self.stdin, self.stdout = stdin, stdout
        self._process, self._on_exit = process, on_exit

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL; the exit is reported as always."""
        self._process.send(signal.SIGKILL)

    def ended(self, code: int) -> None:
        """It has ended, and was waited for."""
        self._process.close()
        self._on_exit(code)

    def orphaned(self) -> None:
        """Nobody will ever know its exit code: it counts as failed, so that nobody takes half an answer for one."""
        self.kill()
        self.ended(EX_FAILED)


class Preloaders:
    """A preloader for each interpreter: begun when a launch may come soon, and each ends by itself."""

    def __init__(self, name: str, mode: str = "") -> None:
        """`name` is what they are called after in `ps`."""
        self._name, self.mode = name, mode
        self._by_python: dict[str, Preloader] = {}
        self._began: dict[str, float] = {}
        self._coming: dict[str, asyncio.TimerHandle] = {}

    def fork(self, run: RunDir, order: LaunchOrder, said: int, digest: str) -> Process:
        """The keeper of the order. Raises `NotPreloadedError`; a preloader that could have done it comes then."""
        if self.mode == "0":
            raise NotPreloadedError("nothing is preloaded here")
        if why := _unsuitable(order):
            raise NotPreloadedError(why)
        preloader = self._by_python.get(order.python)
        if self.mode == "always" and (preloader is None or preloader.objection(order.env)):
            preloader = self._begin(order.python, order.env)
            if preloader is not None:
                preloader.wait()
        why = preloader.objection(order.env) if preloader is not None else "no preloader has been started yet"
        if preloader is None or why:
            self.prepare(order.python, order.env, AFTER_LAUNCH_S)
            raise NotPreloadedError(why)
        try:
            return preloader.fork_keeper(keeper_words(run, order, digest), said)
        except NotPreloadedError:
            self.prepare(order.python, order.env, AFTER_LAUNCH_S)
            raise

    def fork_task(self, task: Task, on_exit: Callable[[int], None], stdin: int, stderr: int) -> Running | None:
        """The short process of `task`, forked; None where it has to be started anew."""
        preloader = self._by_python.get(task.argv[0])
        if preloader is None or not preloader.ready or not _is_ours(task.argv, task.argv[0]):
            return None
        # These processes cap their threads themselves, to the number that was loaded with.
        environ = {**thread_variables(1), **task.environ}
        if preloader.objection(environ):
            return None
        with suppress(NotPreloadedError):
            return preloader.fork_task(task, on_exit, stdin, stderr)
        return None

    def prepare_here(self) -> None:
        """Have one for launches with this process's own interpreter and variables, which are most."""
        self.prepare(sys.executable, _of_clients(os.environ) | thread_variables(1), AFTER_ATTACH_S)

    def prepare(self, python: str, environ: Mapping[str, str], after_s: float) -> None:
        """Have a preloader in a while for what is launched with that interpreter and those variables."""
        if self.mode == "0":
            return
        there = self._by_python.get(python)
        if (
            there is not None
            and not there.over
            and not there.retired
            and not (there.ready and there.differing(environ))
        ):
            return
        loop = asyncio.get_running_loop()
        if loop.time() - self._began.get(python, float("-inf")) >= AGAIN_S:
            self._began[python] = loop.time()
            self._coming[python] = loop.call_later(after_s, self._begin, python, dict(environ))

    def pids(self) -> list[int]:
        """Of those that have not ended."""
        return [there.pid for there in self._by_python.values() if not there.over]

    def end(self) -> None:
        """See all of them gone, and those that were about to come."""
        for timer in self._coming.values():
            timer.cancel()
        for there in self._by_python.values():
            there.end("nobody launches here any more")

    def _begin(self, python: str, environ: Mapping[str, str]) -> Preloader | None:
        memory = memory_of_group()
        if memory is not None and memory.available < LEAST_FREE_BYTES:
            return None
        if (before := self._by_python.get(python)) is not None:
            before.retire("another one takes its place")
        kept = {name: value for name, value in environ.items() if _may_be_kept(name, value)}
        try:
            made = self._by_python[python] = Preloader(python, kept, self._name)
        except OSError as error:
            log.warning("no preloader for %s: %s", python, error)
            return None
        return made


def _of_clients(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of who started this supervisor: a client puts its package before what is in `PYTHONPATH`."""
    own = str(Path(mission_tui.__file__).resolve().parents[1])
    entries = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    theirs = os.pathsep.join(entries[1:] if entries[:1] == [own] else entries)
    rest = {name: value for name, value in environ.items() if name != "PYTHONPATH"}
    return rest | ({"PYTHONPATH": theirs} if theirs else {})


def _may_be_kept(name: str, value: str) -> bool:
    """Whether a preloader is given the variable: it outlives the launch, so it is told no secret."""
    return not name.startswith("MISSION_TUI_") and name not in ONES_OWN and is_harmless(name, value)


def _unsuitable(order: LaunchOrder) -> str:
    if not order.preload:
        return "run.preload = false"
    if not _is_ours(order.argv, order.python):
        return "it is not the trainer of this program and this Python"
    return ""


def _is_ours(argv: Sequence[str], python: str) -> bool:
    return tuple(argv[:3]) == module_words("", python)[:3]


def preloading(root: str) -> Preloaders:
    """As the variable `MISSION_TUI_PRELOAD` of this process says."""
    return Preloaders(root, os.environ.get(MODE, ""))
