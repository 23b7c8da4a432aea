"""A short process of the trainer as a fork of the test, which has torch already: loading it anew takes two seconds.

What it does to itself (limits, priority, threads) ends with it. That a process started anew does the same is shown by
one test of each module that uses this.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence


def forked(main: Callable[[list[str]], int], words: Sequence[str], given: bytes = b"") -> tuple[int, bytes, str]:
    """Exit code, stdout and stderr of `main(words)` in a process of its own, with `given` as its stdin."""
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        asked.write(given)
        asked.seek(0)
        if (child := os.fork()) == 0:
            code = 70
            try:
                os.dup2(asked.fileno(), 0)
                os.dup2(said.fileno(), 1)
                os.dup2(complained.fileno(), 2)
                sys.stdin = os.fdopen(0, closefd=False)
                sys.stdout = os.fdopen(1, "w", closefd=False)
                sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
                code = main(list(words))
                sys.stdout.flush()
            except BaseException:  # noqa: BLE001 - nothing of the test may go on in the child
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        complained.seek(0)
        return os.waitstatus_to_exitcode(status), said.read(), complained.read().decode()
