"""Short supervised processes (preflight, evaluate, export): one JSON object a line, an error as the last one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from mission_tui.errors import EX_FAILED, MissionError
from mission_tui.fleet.history.classify import faulting_line
from mission_tui.fleet.process_limits import ProcessLimits
from mission_tui.fleet.text import clean
from mission_tui.supervisor.host.children import Running, start_child
from mission_tui.supervisor.host.stderr_tail import StderrTail

NICENESS = 10
LINE_BYTES = 1 << 20
_CAUSE_CHARACTERS = 500


class TaskError(MissionError):
    """A short process said why it cannot do its work, or died; `exit_code` is what it asked for."""

    def __init__(self, sentence: str, exit_code: int = EX_FAILED) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class DeathError(TaskError):
    """A short process ended without having said why, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class Task:
    """What to start: the words of `as_module` with the caller's interpreter, folder, environment and `limits`.

    While it works, the directory of the run that it is `about` must stay where it is. One that is `attended` is of use
    only to whoever listens, and ends with them.
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

    Whoever stops listening leaves the process to finish its work, unless it is `attended`.
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
    """Run the process to its end, whoever listens."""
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
    """Who has loaded the libraries of short processes already."""

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
        raise TaskError(f"{task.argv[0]} could not be started in {task.cwd}: {error.strerror}") from error
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
