"""What a process is called in `ps` and `top`: whose it is and what it does there, in place of how it was started.

Standard library only, and silent where the kernel refuses: a name is a courtesy. Nothing identifies a process by it.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from contextlib import suppress

from mission_tui import procfs

_PR_SET_NAME = 15
_NAME_BYTES = 15
_SUFFIX = 5
_STAMP = re.compile(r"\d{8}-\d{6}-")


def call_process(role: str, run: str, *words: str, brief: str | None = None) -> None:
    """Be `mission-tui ROLE of NAME` with `words` behind it, and `BRIEF NAME` where there is room for 15 bytes only.

    `run` is the run's id; the words stay separate arguments. To be called from the main thread.
    """
    if not sys.platform.startswith("linux"):
        return
    name = short_name(run)
    kernel = ctypes.CDLL(None)
    seen = abbreviated(brief or role, name)
    if "SLURM_JOB_ID" in os.environ:
        # Slurm's plugin proctrack/linuxproc reads /proc/PID/stat by words: it never signals who has a space there.
        seen = b":".join(seen.split())
    kernel.prctl(_PR_SET_NAME, ctypes.c_char_p(seen), 0, 0, 0)
    with suppress(OSError, ValueError, IndexError):
        _overwrite_arguments([f"mission-tui {role} of {name}", *words])


def short_name(run: str) -> str:
    """A run's id without the moment it was made at."""
    return _STAMP.sub("", run, count=1)


def abbreviated(role: str, name: str) -> bytes:
    """Both in 15 bytes; the end of a name, which tells it from its namesakes, goes last."""
    whole = os.fsencode(f"{role} {name}")
    if len(whole) <= _NAME_BYTES:
        return whole
    end = os.fsencode(name)[-_SUFFIX + 1 :]
    return whole[: _NAME_BYTES - len(end) - 1] + b"~" + end


def _overwrite_arguments(words: list[str]) -> None:
    """Put `words` where the kernel reads the command line from; what does not fit is cut, the rest is zeros."""
    start, end = procfs.own_region(procfs.ARGUMENTS)
    if not 0 < start < end:
        return
    # The last byte stays zero: anything else there would make the kernel read on into the environment.
    text = b"\0".join(map(os.fsencode, words))[: end - start - 1]
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)
