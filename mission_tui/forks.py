"""A process that foreign code forked off one of ours, and that came back into ours: it ends there, as a failed child.

An environment may fork, and its child may raise, or return where the parent does. It then has everything of the
process it was forked from: files, sockets of env workers, exit handlers. None of that is its own. Children of a
`multiprocessing` pool never come back, and are left alone.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import NoReturn

_guarded: list[int] = []
"""The process that this module guards; empty in processes that nobody asked it to."""

FORKED: list[int] = []
"""Not empty in a fork of the guarded process: cheaper to ask than `leave_fork`, for what is done at every step."""


def guard_forks() -> None:
    """From now on whoever is forked off this process ends at the next `leave_fork` that it comes to."""
    if not _guarded:
        os.register_at_fork(after_in_child=lambda: FORKED.append(os.getpid()))
    _guarded[:] = [os.getpid()]


def leave_fork(error: BaseException | None = None) -> None:
    """End here, without any exit handler, if this is a fork; `error` is what was raised on the way, if anything.

    Called where foreign code returns, and before anything of the run is written.
    """
    if _guarded and _guarded[0] != os.getpid():
        _leave(error)


def _leave(error: BaseException | None) -> NoReturn:
    code = 1
    try:
        if isinstance(error, SystemExit):
            code = error.code & 0xFF if isinstance(error.code, int) else 0 if error.code is None else 1
        elif error is not None:
            traceback.print_exception(error)
        if not isinstance(error, SystemExit):
            print(f"mission-tui: process {os.getpid()}, forked in the training, ends here", file=sys.stderr)  # noqa: T201
    finally:
        os._exit(code)
