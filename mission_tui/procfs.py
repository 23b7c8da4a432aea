"""Processes as `ps` and `top` show them: what `/proc` says of each, read in one way, and what one of ours is called
there: whose it is and what it does, in place of how it was started.

Nothing identifies a process by its name, which is a courtesy: silent where the kernel refuses. Standard library only:
the keeper asks it too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

_LARGEST_BYTES = 4096

ARGUMENTS, VARIABLES = 48, 50
"""Fields of `/proc/PID/stat`, counted from 1: where each begins in memory; the field after it says where it ends."""


class Stat(NamedTuple):
    """What is asked of `/proc/PID/stat` (proc_pid_stat(5)): times in clock ticks, `start_time` after boot.

    `state` is R for what computes, S sleeps, D waits for a device, T is stopped, Z a zombie; `tty` a device number.
    `children_ticks` are the times of children that have ended and that it waited for, with those of theirs.
    """

    pid: int
    state: str
    parent: int
    group: int
    session: int
    tty: int
    cpu_ticks: int
    children_ticks: int
    threads: int
    start_time: int
    resident_pages: int


def read_stat(pid: int) -> Stat | None:
    """The process now, also a zombie; None when there is none. Raises `OSError` when it may not be looked at."""
    try:
        # Half the price of `Path.read_bytes`, and it is asked for all the time.
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            line = os.read(descriptor, _LARGEST_BYTES)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = _fields(line)
    parent, group, session, tty = map(int, fields[1:5])
    cpu_ticks, children_ticks = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    threads, start_time, pages = int(fields[17]), int(fields[19]), int(fields[21])
    state = fields[0].decode()
    return Stat(pid, state, parent, group, session, tty, cpu_ticks, children_ticks, threads, start_time, pages)


def own_region(field: int) -> tuple[int, int]:
    """Where the kernel reads the command line (`ARGUMENTS`) or the variables (`VARIABLES`) of this process."""
    fields = _fields(Path("/proc/self/stat").read_bytes())
    return int(fields[field - 3]), int(fields[field - 2])


def _fields(line: bytes) -> list[bytes]:
    """What follows the name in a line of `/proc/PID/stat`: the third field and those after it."""
    # The name may hold spaces, brackets and newlines; only the last bracket of the line is the kernel's own.
    return line[line.rindex(b")") + 2 :].split()


def process_ids() -> list[int]:
    """The number of every process that may be seen, ascending."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - half the price


def own_processes() -> Iterator[Stat]:
    """Every process of this user that may be looked at, also zombies."""
    uid = os.getuid()
    for pid in process_ids():
        try:
            stat = read_stat(pid) if Path(f"/proc/{pid}").stat().st_uid == uid else None
        except OSError:
            continue
        if stat is not None:
            yield stat


MARKS = ("MISSION_TUI_RUN", "MISSION_TUI_RUN_DIR", "MISSION_TUI_ATTEMPT", "MISSION_TUI_NONCE")


def marker_of(pid: int) -> dict[str, str] | None:
    """The run's variables in the environment that the process was started with; None unless all are there."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - a Path costs more, for each process
            environ = file.read()
    except OSError:
        return None
    if b"MISSION_TUI_NONCE=" not in environ:
        return None
    pairs = (item.partition(b"=") for item in environ.split(b"\0"))
    marks = {os.fsdecode(key): os.fsdecode(value) for key, _, value in pairs if key.startswith(b"MISSION_TUI_")}
    return marks if all(mark in marks for mark in MARKS) else None


def wait_channel(pid: int) -> str:
    """The kernel function that `pid` waits in, empty where the kernel does not tell."""
    try:
        return Path(f"/proc/{pid}/wchan").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


@cache
def boot_id() -> str:
    """The id that this boot of the machine has. No process outlives its boot, and one without a descriptor left can
    still ask.
    """
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


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
    import ctypes  # half a millisecond of a start, and most who read /proc name no process

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
    import ctypes

    start, end = own_region(ARGUMENTS)
    if not 0 < start < end:
        return
    # The last byte stays zero: anything else there would make the kernel read on into the environment.
    text = b"\0".join(map(os.fsencode, words))[: end - start - 1]
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)
