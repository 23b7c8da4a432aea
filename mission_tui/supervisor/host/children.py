"""Child processes of the supervisor, reaped when their pidfd says so, or by looking where pidfds are refused; and the
limits that they are given.

No asyncio child watcher is involved: it may signal a number that has been given away (CPython #127049). Until `poll`
has reaped a child its number cannot be reused, so signals through `Popen` reach this child and nobody else.

The supervisor's own cores, niceness, `ulimit`s and umask are the same ones, whichever shell has started it. Runs have
those of the shells that launch them. What this process was started with and cannot get rid of (a hard limit that was
lowered, niceness where it may not be taken back) bounds them all, and each launch that it makes poorer says so.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from mission_tui.errors import UsageError
from mission_tui.fleet.process_limits import UNLIMITED, ProcessLimits, cores_in, shortfalls
from mission_tui.fleet.resume.verdict import Change
from mission_tui.ipc.client_environment import SCHEDULERS, captured_limits
from mission_tui.supervisor.host.identity import EXIT_LOOK_S, NO_PIDFD, REFUSED

STACK_BYTES = 8 << 20
LEAST_FILES = 64
"""Open files with which a supervisor of a few runs can work; with ten it has none left for whoever asks."""
_AS_THEY_ARE = frozenset({"RLIMIT_STACK", "RLIMIT_CORE", "RLIMIT_OFILE", "RLIMIT_RTTIME"})
_REMEDY = "`mission-tui supervisor stop`, then launch from this shell: runs go on"
_own: list[ProcessLimits] = []


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
