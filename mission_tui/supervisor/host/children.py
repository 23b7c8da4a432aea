"""Child processes of the supervisor, reaped when their pidfd says so, or by looking where pidfds are refused; and the
limits that they are given.

No asyncio child watcher is involved: it may signal a number that has been given away (CPython #127049). Until `poll`
has reaped a child its number cannot be reused, so signals through `Popen` reach this child and nobody else.

The supervisor's own cores, niceness, `ulimit`s and umask are the same ones, whichever shell has started it. Runs have
those of the shells that launch them. What this process was started with and cannot get rid of (a hard limit that was
lowered, niceness where it may not be taken back) bounds them all, and each launch that it makes poorer says so.

Some are short: a task that answers with one JSON object a line and an error as the last one (preflight, evaluate,
export), and a process that is asked line by line, a question on its stdin, one object as the answer. One that is asked
does nothing that was not asked, so nothing queues; it ends with `end`, and when nobody asks for a while. The last that
either writes on stderr is read as it comes, so whatever is printed there takes no disk; a process that writes faster
than it is read waits, as it would for a terminal.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any, Protocol, cast

import msgspec
from msgspec import Struct

from mission_tui.errors import EX_FAILED, MissionError, UsageError, limit_met
from mission_tui.fleet.history.classify import faulting_line
from mission_tui.fleet.process_limits import UNLIMITED, ProcessLimits, cores_in, shortfalls
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.text import clean
from mission_tui.ipc.client_environment import SCHEDULERS, captured_limits
from mission_tui.supervisor.host.identity import EXIT_LOOK_S, NO_PIDFD, REFUSED

STACK_BYTES = 8 << 20
LEAST_FILES = 64
"""Open files with which a supervisor of a few runs can work; with ten it has none left for whoever asks."""
_AS_THEY_ARE = frozenset({"RLIMIT_STACK", "RLIMIT_CORE", "RLIMIT_OFILE", "RLIMIT_RTTIME"})
_REMEDY = "`mission-tui supervisor stop`, then launch from this shell: runs go on"
_own: list[ProcessLimits] = []

_KEPT_BYTES = 16384
_GULP_BYTES = 65536
_GULPS_AT_THE_END = 16
"""What a grandchild goes on to write is nobody's last words: reading ends after so many times."""

NICENESS = 10
LINE_BYTES = 1 << 20
_CAUSE_CHARACTERS = 500

IDLE_S = 300.0
"""So long it lives without a question."""


def take_fixed_limits() -> None:
    """All cores, no niceness, every limit as high as it may be, files for us alone. What is refused stays as it is.

    Raises `UsageError` where too few files may be open to answer anybody.
    """
    os.umask(0o077)
    with suppress(OSError):
        known = max(os.sysconf("SC_NPROCESSORS_CONF"), *os.sched_getaffinity(0))
        # The kernel leaves out what the cpuset of this process does not have.
        os.sched_setaffinity(0, range(known + 1))
    with suppress(OSError):
        if os.sched_getscheduler(0) in (SCHEDULERS["batch"], SCHEDULERS["idle"]):
            os.sched_setscheduler(0, SCHEDULERS["other"], os.sched_param(0))
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    adjustment = Path("/proc/self/oom_score_adj")
    with suppress(OSError, ValueError):
        if int(adjustment.read_text(encoding="ascii")) > 0:
            adjustment.write_text("0", encoding="ascii")
    for name in dir(resource):
        if name.startswith("RLIMIT_") and name not in _AS_THEY_ARE:
            _raise_limit(getattr(resource, name))
    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_STACK)
        soft = STACK_BYTES if hard == UNLIMITED else min(STACK_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    _own[:] = [captured_limits()]
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= files < LEAST_FILES:
        raise UsageError(
            f"only {files} files may be open here (ulimit -Hn), and a supervisor needs {LEAST_FILES}: "
            "start it from a shell that may have more"
        )


def _raise_limit(number: int) -> None:
    soft, hard = resource.getrlimit(number)
    if number == resource.RLIMIT_NOFILE:
        most = int(Path("/proc/sys/fs/nr_open").read_text(encoding="ascii"))
    else:
        most = UNLIMITED
    for wanted in ((most, most), (hard, hard)):
        if wanted == (soft, hard):
            return
        with suppress(OSError, ValueError):
            resource.setrlimit(number, wanted)
            return


def limits_lacking(wanted: ProcessLimits | None) -> tuple[Change, ...]:
    """A note for each limit that an attempt asks for and cannot be given here."""
    if wanted is None or not _own:
        return ()
    why = f"the supervisor was started from a shell with less and cannot give more; {_REMEDY}"
    return tuple(
        Change(f"limit {name}", asked, given, "note", why) for name, asked, given in shortfalls(wanted, _own[0])
    )


def said_of_limits(wanted: ProcessLimits | None) -> tuple[str, ...]:
    """The same as one sentence for whoever launches; empty where nothing is lacking."""
    lacking = [
        f"{change.name.removeprefix('limit ')} {change.was}, has {change.now}" for change in limits_lacking(wanted)
    ]
    if not lacking:
        return ()
    return (f"asked for {'; '.join(lacking)}: the supervisor was started from a shell with less; {_REMEDY}",)


def limit_process(pid: int, limits: ProcessLimits) -> None:
    """Set `limits`, but for umask and niceness, for the process `pid`, a child of ours that has just been started."""
    if limits.cores is not None:
        with suppress(OSError, ValueError):
            os.sched_setaffinity(pid, cores_in(limits.cores))
    for name, (soft, hard) in limits.rlimits.items():
        number = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if number is None:
            continue
        try:
            now, most = resource.prlimit(pid, number)
            bound = (soft, hard) if most == UNLIMITED else (_lower(soft, most), _lower(hard, most))
            if bound != (now, most):
                resource.prlimit(pid, number, bound)
        except (OSError, ValueError):
            continue


def _lower(wanted: int, most: int) -> int:
    return most if wanted == UNLIMITED else min(wanted, most)


class Running(Protocol):
    """A started process with the ends of its pipes, if it was given any; whose child it is, is said by who made it."""

    @property
    def pid(self) -> int: ...
    @property
    def stdin(self) -> IO[bytes] | None: ...
    @property
    def stdout(self) -> IO[bytes] | None: ...
    def kill(self) -> None: ...


class Child:
    """A started process; `on_exit` is called once with its return code (negative: the signal that ended it)."""

    def __init__(self, process: subprocess.Popen[bytes], on_exit: Callable[[int], None]) -> None:
        self.process = process
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except OSError as error:
            if error.errno not in REFUSED:
                # No descriptor is left to watch it by: whoever asked for it is told that there is none.
                process.kill()
                process.wait()
                raise
            self._pidfd = NO_PIDFD
            self._loop.call_later(EXIT_LOOK_S, self._poll)
        else:
            self._loop.add_reader(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def stdin(self) -> IO[bytes] | None:
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes] | None:
        return self.process.stdout

    def kill(self) -> None:
        """SIGKILL; the exit is reported through `on_exit` as always."""
        self.process.kill()

    def _poll(self) -> None:
        code = self.process.poll()
        if code is None:
            self._loop.call_later(EXIT_LOOK_S, self._poll)
        else:
            self._on_exit(code)

    def _reap(self) -> None:
        code = self.process.poll()
        if code is None:
            return
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._on_exit(code)


def start_child(
    argv: Sequence[str],
    on_exit: Callable[[int], None],
    *,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
    detached: bool = False,
    limits: ProcessLimits | None = None,
    passes: Sequence[int] = (),
) -> Child:
    """Start `argv` with closed descriptors; `detached` gives it a session of its own, `limits` are its alone.
    Of the descriptors that are open it has those that `passes` names, under their numbers.

    Raises `OSError`.
    """
    process = subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=None if env is None else dict(env),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=detached,
        pass_fds=passes,
        umask=-1 if limits is None or limits.umask is None else limits.umask & 0o777,
    )
    if limits is not None:
        # After the start, unlike the keeper's: a fork of this process, with its threads and memory, is neither safe
        # nor cheap, and an interpreter that has just begun has done nothing yet.
        limit_process(process.pid, limits)
    return Child(process, on_exit)


class StderrTail:
    """A pipe: its `fileno` is for the process, and is given up here with `begun`, once that has a copy."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        self._kept = b""
        self._open = True
        self._loop.add_reader(self._read, self._take)

    def fileno(self) -> int:
        """What the process is given as its stderr."""
        return self._write

    def begun(self) -> None:
        """The process has started, or could not be."""
        if self._write >= 0:
            os.close(self._write)
            self._write = -1

    def text(self) -> str:
        """The last of it, now."""
        for _ in range(_GULPS_AT_THE_END):
            if not self._take():
                break
        return self._kept.decode("utf-8", "replace")

    def close(self) -> None:
        """Read no more."""
        self.begun()
        if self._open:
            self._open = False
            self._loop.remove_reader(self._read)
            os.close(self._read)

    def _take(self) -> bool:
        """Read what has come; whether there may be more."""
        if not self._open:
            return False
        with suppress(BlockingIOError):
            if said := os.read(self._read, _GULP_BYTES):
                self._kept = (self._kept + said)[-_KEPT_BYTES:]
                return True
            self.close()
        return False


class TaskError(MissionError):
    """A short process said why it cannot do its work, or died; `exit_code` is what it asked for."""

    def __init__(self, sentence: str, exit_code: int = EX_FAILED) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class DeathError(TaskError):
    """A short process ended without having said why, or did not answer in time."""


class Task(Struct, frozen=True):
    """What to start: the words of `as_module` with the caller's interpreter, folder, environment and `limits`.

    While it works, the directory of the run that it is `about` must stay where it is. One that is `attended` is of use
    only to its client, and ends with it.
    """

    argv: Sequence[str]
    cwd: str
    environ: Mapping[str, str]
    stdin: bytes = b""
    about: str | None = None
    attended: bool = False
    limits: ProcessLimits | None = None


_Said = dict[str, Any]
_working: dict[asyncio.Task[None], Task] = {}
"""Tasks that go on although nobody listens; the event loop itself holds tasks only weakly."""


async def run_task(task: Task, limit_s: float | None = None) -> AsyncGenerator[_Said]:
    """The objects the process prints, as they come. Raises `TaskError` when it fails or passes `limit_s`.

    When the client leaves, the process finishes its work, unless it is `attended`.
    """
    heard: asyncio.Queue[_Said | TaskError | None] = asyncio.Queue()
    work = asyncio.create_task(_carry_out(task, limit_s, heard))
    _working[work] = task
    work.add_done_callback(_working.pop)
    try:
        while (said := await heard.get()) is not None:
            if isinstance(said, TaskError):
                raise said
            yield said
    finally:
        if task.attended:
            work.cancel()


def task_about(run_id: str) -> str | None:
    """What a short process is doing with the run's directory, such as "evaluate"; None when none is."""
    return next((_name(task).rpartition(".")[2] for task in _working.values() if task.about == run_id), None)


def tasks_at_work() -> bool:
    """Whether any short process has not ended."""
    return bool(_working)


async def _carry_out(task: Task, limit_s: float | None, heard: asyncio.Queue[_Said | TaskError | None]) -> None:
    """Run the process to its end, also when the client is gone."""
    code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    with tempfile.TemporaryFile() as given, closing(StderrTail()) as complaints:
        given.write(task.stdin)
        given.seek(0)
        try:
            child = start_task(task, given.fileno(), complaints, code)
        except TaskError as error:
            heard.put_nowait(error)
            return
        try:
            async with asyncio.timeout(limit_s):
                async for said in objects_of(child):
                    heard.put_nowait(refusal_in(said) or said)
                await asyncio.shield(code)
        except asyncio.CancelledError:
            if task.attended:
                child.kill()
            raise
        except TimeoutError:
            child.kill()
            heard.put_nowait(DeathError(f"{_name(task)} did not answer within {limit_s:g} s and was ended"))
            await code
            return
        heard.put_nowait(None if code.result() == 0 else DeathError(death_of(task, code.result(), complaints)))


class Forking(Protocol):
    """What has loaded the libraries of short processes already, and forks them."""

    def fork_task(self, task: Task, on_exit: Callable[[int], None], stdin: int, stderr: int) -> Running | None:
        """The process of `task`, if it can be forked; `stdin` may be `subprocess.PIPE`, as its stdout is."""


forking: Forking | None = None
"""Set by the supervisor's main; without, each is started anew."""


def start_task(task: Task, stdin: int, complaints: StderrTail, code: asyncio.Future[int]) -> Running:
    """Start it, at low priority; `code` gets how it ended. Raises `TaskError` where it cannot be."""

    def ended(result: int) -> None:
        if not code.done():
            code.set_result(result)

    try:
        forked = None if forking is None else forking.fork_task(task, ended, stdin, complaints.fileno())
        child = forked or start_child(
            task.argv,
            ended,
            cwd=task.cwd,
            env=task.environ,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=complaints.fileno(),
            detached=True,
            limits=task.limits,
        )
    except OSError as error:
        why = limit_met(error, starting=True) or error.strerror
        raise TaskError(f"{task.argv[0]} could not be started in {task.cwd}: {why}") from error
    finally:
        complaints.begun()
    wanted = 0 if task.limits is None else task.limits.nice or 0
    os.setpriority(os.PRIO_PROCESS, child.pid, max(NICENESS, wanted))
    return child


async def objects_of(child: Running) -> AsyncIterator[_Said]:
    """The JSON objects that it prints, to its last one."""
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), child.stdout
    )
    try:
        while line := await reader.readline():
            try:
                yield msgspec.json.decode(line, type=_Said)
            except msgspec.DecodeError:
                continue  # environments print what they like
    finally:
        transport.close()


def refusal_in(said: _Said) -> TaskError | None:
    """The error that `said` is; None for anything else."""
    if "error" not in said:
        return None
    code = said.get("exit_code")
    return TaskError(clean(str(said["error"]), _CAUSE_CHARACTERS), code if isinstance(code, int) else EX_FAILED)


def _name(task: Task) -> str:
    """The module or script that it is, by its words."""
    ours = next((word for word in task.argv if word.startswith("mission_tui.")), None)
    return ours or (task.argv[2] if len(task.argv) > 2 else task.argv[-1])


def death_of(task: Task, code: int, complaints: StderrTail) -> str:
    """How it ended with exit code `code`, and the last that it complained about."""
    text = complaints.text().strip()
    lines = text.splitlines()
    last = faulting_line(text) or (clean(lines[-1], _CAUSE_CHARACTERS) if lines else "it said nothing")
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"{_name(task)} ended with {how}: {last}"


class AskedProcess:
    """A process that is `task`, started at once. Raises `TaskError` where that is not possible."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._ended, self._death = False, ""
        self._loop = asyncio.get_running_loop()
        self._code: asyncio.Future[int] = self._loop.create_future()
        self._complaints = StderrTail()
        self._idle = self._loop.call_later(IDLE_S, self.end)
        try:
            self._child = start_task(task, subprocess.PIPE, self._complaints, self._code)
        except TaskError:
            self._idle.cancel()
            self._complaints.close()
            raise
        self._said = cast("AsyncGenerator[dict[str, Any]]", objects_of(self._child))
        self._asking = asyncio.Lock()
        self._finishing = asyncio.create_task(self._finish())

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def ended(self) -> bool:
        """Whether it was ended here: by `end`, or because it was not asked for long."""
        return self._ended

    async def check(self) -> None:
        """Raise `DeathError` with how it ended, if it did so by itself."""
        if self._code.done() and not self._ended:
            await asyncio.shield(self._finishing)
            raise DeathError(self._death)

    async def ask(self, question: bytes, limit_s: float) -> dict[str, Any]:
        """Its answer to one line, which is awaited before the next is asked.

        Raises `TaskError` with its refusal, when it dies, and when it does not answer within `limit_s`: it is then
        ended.
        """
        async with self._asking:
            self._idle.cancel()
            answer = await self._answer(question, limit_s)
            if (refusal := refusal_in(answer)) is not None:
                self.end()
                raise refusal
            self._idle = self._loop.call_later(IDLE_S, self.end)
            return answer

    async def _answer(self, question: bytes, limit_s: float) -> dict[str, Any]:
        stdin = self._child.stdin
        if stdin is None or stdin.closed:
            raise DeathError("its process has ended")
        try:
            async with asyncio.timeout(limit_s):
                with suppress(BrokenPipeError):
                    stdin.write(question + b"\n")
                    stdin.flush()
                answer = await anext(self._said, None)
                if answer is None:
                    code = await asyncio.shield(self._code)
                    raise DeathError(death_of(self._task, code, self._complaints))
                return answer
        except TimeoutError:
            self.end()
            raise DeathError(f"it did not answer within {limit_s:g} s and was ended") from None
        except ValueError:  # a line that is longer than a reader takes
            self.end()
            raise DeathError("its answer was too large, so it was ended") from None

    def end(self) -> None:
        """Kill it, with whatever it has started."""
        self._idle.cancel()
        self._ended = True
        if not self._code.done():
            # Nobody has waited for it yet, so its number is its own; it leads a process group.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.kill()

    async def _finish(self) -> None:
        """Close what leads to it, once it has ended and whoever asks has been told."""
        await self._code
        self._idle.cancel()
        async with self._asking:
            self._death = death_of(self._task, self._code.result(), self._complaints)
            await self._said.aclose()
            stdin = self._child.stdin
            if stdin is not None:
                with suppress(BrokenPipeError):
                    stdin.close()
            self._complaints.close()
