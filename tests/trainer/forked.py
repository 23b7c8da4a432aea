"""A process of the trainer as a fork of the test, which has torch already: loading it anew takes two seconds.

What it does to itself (limits, priority, threads) ends with it. That a process started anew does the same is shown by
one test of each module that uses this.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mission_tui import forks
from tests.waiting import until

Main = Callable[[list[str]], int]


def forked(main: Main, words: Sequence[str], given: bytes = b"") -> tuple[int, bytes, str]:
    """Exit code, stdout and stderr of `main(words)` in a process of its own, with `given` as its stdin."""
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        asked.write(given)
        asked.seek(0)
        child = _fork(main, words, (asked, said, complained))
        _, status = os.waitpid(child, 0)
        said.seek(0)
        complained.seek(0)
        return os.waitstatus_to_exitcode(status), said.read(), complained.read().decode()


@dataclass
class Fork:
    """Such a process while it runs, with what a test asks of a `Popen`."""

    pid: int
    stderr: IO[str]
    returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout_s: float) -> int:
        until(lambda: self.poll() is not None, timeout_s, "the fork ends")
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


@contextmanager
def running(main: Main, words: Sequence[str], environ: Mapping[str, str]) -> Iterator[Fork]:
    """`main(words)` in a session of its own with these variables and no others; ended with the test."""

    def begin(words: list[str]) -> int:
        os.setsid()
        os.environ.clear()
        os.environ.update(environ)
        return main(words)

    with (
        Path(os.devnull).open("rb") as nothing,
        tempfile.NamedTemporaryFile("w") as complained,
        Path(complained.name).open(encoding="utf-8") as read,
    ):
        process = Fork(_fork(begin, words, (nothing, sys.__stdout__, complained)), read)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            with suppress(ChildProcessError):
                process.wait(10)


def _fork(main: Main, words: Sequence[str], streams: Sequence[Any]) -> int:
    """Its process id; `streams` are its standard ones."""
    if (child := os.fork()) != 0:
        return child
    code = 70
    try:
        _warn_as_ever()
        # A training may have been tried in the test's own process, and guards it since.
        forks._guarded.clear()
        forks.FORKED.clear()
        for descriptor, stream in enumerate(streams):
            os.dup2(stream.fileno(), descriptor)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        code = main(list(words))
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - nothing of the test may go on in the child
        traceback.print_exc()
    finally:
        os._exit(code)


def _warn_as_ever() -> None:
    """As Python does at its start; in a test every warning is an error."""
    warnings.resetwarnings()
    for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", kind)
