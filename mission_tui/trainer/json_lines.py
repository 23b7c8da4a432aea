"""How the short processes are asked and answer: a spec on stdin, JSON lines on stdout.

Nothing else comes on stdout, whatever an environment prints.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import msgspec

from mission_tui.errors import EX_FAILED, MissionError, PresetError, raised_by
from mission_tui.fleet.specs.spec import Spec
from mission_tui.forks import guard_forks, leave_fork

Say = Callable[[dict[str, Any]], None]


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
