"""Child processes of the supervisor, reaped when their pidfd says so, or by looking where pidfds are refused.

No asyncio child watcher is involved: it may signal a number that has been given away (CPython #127049). Until `poll`
has reaped a child its number cannot be reused, so signals through `Popen` reach this child and nobody else.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from mission_tui.fleet.process_limits import ProcessLimits
from mission_tui.supervisor.host.identity import EXIT_LOOK_S, NO_PIDFD, REFUSED
from mission_tui.supervisor.host.own_limits import limit_process


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
