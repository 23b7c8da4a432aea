"""What a trainer's process asks of the machine (to come after the screen, few threads, which children it has), and how
the short processes are asked and answer: a spec on stdin, JSON lines on stdout.

What a process prints is no error on a full disk: its output is a file of the run directory, so there every `print` of
anybody would raise. On the stdout of a short process nothing but its answers comes, whatever an environment prints.
"""

from __future__ import annotations

import errno
import gc
import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from mission_tui.errors import EX_FAILED, EX_RESUMABLE, MissionError, PresetError, raised_by
from mission_tui.fleet.specs.consistency import THREAD_VARIABLES
from mission_tui.fleet.specs.spec import Spec
from mission_tui.forks import guard_forks, leave_fork

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


_NICE = 5
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})

Say = Callable[[dict[str, Any]], None]


def lower_priority(*, own_session: bool) -> None:
    """Nice 5, so that a terminal stays quick beside busy trainings; with `own_session` for the session's autogroup too.

    The kernel weighs sessions against each other first, so nice alone counts only within one.
    """
    if os.getpriority(os.PRIO_PROCESS, 0) < _NICE:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    if own_session:
        # Absent without CONFIG_SCHED_AUTOGROUP; nice alone has to do then.
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(_NICE))


class WrongDirectoryError(MissionError):
    """The lease that this process was given is that of another run directory."""

    exit_code = EX_RESUMABLE


def check_lease(environ: Mapping[str, str], lease: Path) -> None:
    """Raise `WrongDirectoryError` unless the lease that the keeper passed on, if one did, is the file `lease`.

    Comes before anything is written: a process that was started with another directory's words trains nothing here.
    """
    descriptor = environ.get("MISSION_TUI_LEASE_FD", "")
    if not descriptor.isdigit():
        return
    try:
        held = os.fstat(int(descriptor))
    except OSError:
        return  # a program between the keeper and this one closed it; the keeper holds the lease all the same
    try:
        there = lease.stat(follow_symlinks=False)
    except OSError as error:
        raise WrongDirectoryError(f"{lease} cannot be looked at: {error.strerror}; nothing is trained") from error
    if (held.st_dev, held.st_ino) != (there.st_dev, there.st_ino):
        raise WrongDirectoryError(
            f"the lease of this process is not {lease}: it was started for another run directory, so it trains nothing"
        )


def keep_lease_private(environ: Mapping[str, str]) -> None:
    """Close the run's lease in every program this one starts: a helper that outlives the run must not hold it."""
    descriptor = environ.get("MISSION_TUI_LEASE_FD", "")
    if descriptor.isdigit():
        with suppress(OSError):
            os.set_inheritable(int(descriptor), False)


@contextmanager
def collecting_later() -> Iterator[None]:
    """No garbage collection inside, and afterwards none of what was made inside: modules are not garbage.

    Collections while torch is imported find nothing and take a fifth of that time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def cap_threads(threads: int) -> None:
    """Use `threads` threads in torch and in what comes with it."""
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, str(threads))
    # A thread that waits by spinning takes the core of another run.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # After the variables: the libraries read them when they are loaded.
    import torch

    torch.set_num_threads(threads)


def children() -> list[int]:
    """Children of this process that have not been waited for; in a subreaper, orphans below it are among them."""
    found: list[int] = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            found += map(int, (thread / "children").read_text(encoding="ascii").split())
    return found


class _Output(io.FileIO):
    """Takes what there is no room for, and drops it."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Bytes that need no further try."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            return memoryview(data).nbytes


def outlive_full_disk() -> None:
    """From now on words to stdout and stderr are written at once, or dropped where the disk is full."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            raw = _Output(stream.fileno(), "wb", closefd=False)
            text = io.TextIOWrapper(raw, stream.encoding, stream.errors, write_through=True)
            setattr(sys, name, text)


def answer(work: Callable[[Say], None]) -> int:
    """Run `work` with a function that says one JSON line; returns the exit code.

    A failure is said as ``{"error": sentence, "exit_code": n}``. Prints of foreign code go to stderr meanwhile.
    """
    with _private_stdout() as answers:

        def say(message: dict[str, Any]) -> None:
            answers.write(json.dumps(message) + "\n")
            answers.flush()

        guard_forks()
        try:
            work(say)
            leave_fork()
        except MissionError as error:
            leave_fork(error)
            say({"error": str(error), "exit_code": error.exit_code})
            return error.exit_code
        except Exception as error:  # noqa: BLE001 - the edge of the process
            leave_fork(error)
            traceback.print_exception(error, file=sys.stderr)
            say({"error": raised_by(error), "exit_code": EX_FAILED})
            return EX_FAILED
    return 0


def asked_spec(raw: bytes) -> Spec:
    """The spec that came on stdin. Raises `PresetError`."""
    try:
        return msgspec.json.decode(raw, type=Spec)
    except msgspec.DecodeError as error:
        raise PresetError(f"the spec on stdin cannot be used: {error}") from error


@contextmanager
def _private_stdout() -> Iterator[TextIO]:
    """The real stdout for us alone, while descriptor 1 leads to stderr."""
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        try:
            yield answers
        finally:
            sys.stdout.flush()
            os.dup2(answers.fileno(), 1)
