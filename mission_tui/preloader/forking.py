"""What a fork of the preloader makes of itself: the keeper of an attempt, its trainer, or a short process.

A program that is started anew gets these things from the kernel and the interpreter; a fork has to be given them:
variables (those that `/proc` shows too), descriptors, standard streams, signals, and random numbers of its own.
"""

from __future__ import annotations

import ctypes
import faulthandler
import fcntl
import io
import os
import random
import runpy
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

from mission_tui.procfs import VARIABLES, own_region


def room_for_variables() -> int:
    """Bytes that `/proc/self/environ` can hold: what this process was started with."""
    start, end = own_region(VARIABLES)
    return end - start


def become(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Be the module that `argv` names, as the program `argv` would have been; returns its exit code."""
    _close_as_exec_does()
    take_environ(environ)
    _take_signals()
    _take_streams()
    if os.environ.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
    time.tzset()
    tempfile.tempdir = None
    draw_own_random_numbers()
    # [python, -P, run_module.py, MODULE, ...]
    sys.orig_argv[:] = argv
    sys.argv[:] = argv[3:]
    # As in a process started anew, where it is not loaded yet: runpy warns into the run's log of one that is.
    if sys.modules.pop(f"{sys.argv[0]}.__main__", None) is None:
        sys.modules.pop(sys.argv[0], None)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    return 0


def draw_own_random_numbers() -> None:
    """Forks of one process would all draw the same numbers; `random` itself takes care of that, others do not."""
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(int.from_bytes(os.urandom(4), "little"))
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.manual_seed(int.from_bytes(os.urandom(7), "little"))
    if (processes := sys.modules.get("multiprocessing.process")) is not None:
        processes.current_process().authkey = os.urandom(32)


def _close_as_exec_does() -> None:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        descriptor = int(name)
        with suppress(OSError):
            if fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                os.close(descriptor)


def take_environ(environ: Mapping[str, str]) -> None:
    """Have these variables and no others, also for whoever reads `/proc/PID/environ`."""
    for name in os.environ.keys() - environ.keys():
        del os.environ[name]
    os.environ.update({name: value for name, value in environ.items() if os.environ.get(name) != value})
    start, end = own_region(VARIABLES)
    text = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environ.items())
    if len(text) <= end - start:
        # No more of the room than holds variables now: what is written over is copied, in a fork.
        behind = start
        while behind < end and (variable := ctypes.string_at(behind)):
            behind += len(variable) + 1
        ctypes.memmove(start, text.ljust(behind - start, b"\0"), max(len(text), behind - start))


def _take_signals() -> None:
    """As Python sets them at its start."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _take_streams() -> None:
    """Standard streams on the descriptors that this process has now, unbuffered where its variables say so."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = open(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors, closefd=False)  # type: ignore[misc]  # noqa: SIM115 - for good
    sys.stdout = sys.__stdout__ = _writer(1, sys.stdout, unbuffered)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _writer(2, sys.stderr, unbuffered)  # type: ignore[misc]


def _writer(descriptor: int, before: TextIO, unbuffered: bool) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    # Python itself writes to a raw file where it is told not to buffer; typeshed knows buffered ones only.
    below: Any = raw if unbuffered else io.BufferedWriter(raw)
    lines = descriptor == 2 and not unbuffered
    return io.TextIOWrapper(below, before.encoding, before.errors, write_through=unbuffered, line_buffering=lines)
