"""``run_module.py mission_tui.preloader DESCRIPTOR ROOT PADDING``: load, say so, fork keepers as long as they are asked
for.

Each message on the socket DESCRIPTOR asks for one fork, and comes with a pipe and the fork's standard streams. The
answer is `{"pid": ...}`; the fork does nothing until a byte comes through the pipe, and ends if it is closed without.
`{"keeper": [...]}` is a keeper with these words, and its standard input. `{"argv": ..., "cwd": ..., "environ": ...,
"umask": ...}` is a short process with all three streams; how it ended is said with `{"exit": PID, "code": ...}`.

It ends when the supervisor does, when nobody asked for so long, when memory is short, and when a file that it has
loaded is changed on disk.

Before the first fork nothing of the user's is imported, no environment or network is built, no operation that could
start a thread is run: a fork of a process with threads is a process in which locks stay taken for ever.

A program that is started anew gets some things from the kernel and the interpreter; a fork, the keeper of an attempt,
its trainer or a short process, has to be given them: variables (those that `/proc` shows too), descriptors, standard
streams, signals, and random numbers of its own.
"""

from __future__ import annotations

import ctypes
import faulthandler
import fcntl
import gc
import importlib
import io
import json
import math
import mmap
import os
import random
import runpy
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO

from mission_tui.errors import EX_FAILED
from mission_tui.keeper import __main__ as keeper
from mission_tui.keeper.child import ForkedTrainer, fork_trainer
from mission_tui.preloader import ONES_OWN, PADDING
from mission_tui.procfs import VARIABLES, call_process, own_region

IDLE_S = 600.0
LOOK_S = 30.0
TOGETHER_S = 0.1
"""Forks that follow one another as closely are of one launch, and of what was found on disk at its first."""

LEAST_FREE_BYTES = 512 << 20
MESSAGE_BYTES = 1 << 17
_PR_SET_PDEATHSIG = 1

MODULES = (
    "mission_tui.keeper.__main__",
    "mission_tui.trainer.__main__",
    "mission_tui.trainer.training",
    "mission_tui.trainer.playing.evaluate",
    "mission_tui.trainer.checking.preflight",
    "mission_tui.envs.channel",
    "mission_tui.envs.missions",
    "gymnasium.envs.classic_control",
    "stable_baselines3",
)
_MADV_COLLAPSE = 25
_WORTH_KIB = 64


def main() -> int:
    """Serve until it is over; in a fork, be what was asked for."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    call_process("preloader", sys.argv[2], brief="preload")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # While it loads it hears nothing: the kernel ends it with the supervisor. Forks are not asked to end with it.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    preloader = _Preloader(channel, room_for_variables())
    wanted = preloader.serve()
    if wanted is None:
        return 0
    asked, go, streams = wanted
    if not os.read(go, 1):
        os._exit(0)
    os.close(go)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if "argv" in asked:
            return _be_short_process(asked)
        sys.argv[:] = ["mission_tui.keeper", *asked["keeper"]]
        _leave(keeper.main(fork_trainer))
    except ForkedTrainer as forked:
        trainer = forked
    # Out here, so that nothing of the keeper is in any traceback of the trainer.
    return become(trainer.argv, trainer.environ)


def _leave(code: int) -> NoReturn:
    """End without taking to pieces what was loaded for trainers: that takes a fifth of a second and copies its memory.

    Only for a keeper, in which nothing of the user's runs that may count on being taken to pieces.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _be_short_process(asked: dict[str, Any]) -> int:
    os.setsid()
    try:
        os.chdir(asked["cwd"])
    except OSError as error:
        print(f"cannot enter {asked['cwd']}: {error.strerror}", file=sys.stderr, flush=True)  # noqa: T201
        return EX_FAILED
    if asked["umask"] is not None:
        os.umask(asked["umask"])
    return become(asked["argv"], asked["environ"])


ForkRequest = tuple[dict[str, Any], int, list[int]]


class _Preloader:
    """What it has loaded, and the short processes whose end somebody waits for."""

    def __init__(self, channel: socket.socket, room: int) -> None:
        self._channel = channel
        self._room = room
        self._short: dict[int, int] = {}
        self._retired = False
        self._wanted_at = time.monotonic()
        self._compared_at = -math.inf
        # Kept in forks too: to let go of thousands of stamps would copy the memory that they lie in.
        self._loaded: dict[str, Stamp] = {}

    def serve(self) -> ForkRequest | None:
        """None when it is over; in a fork, what it is to be, its pipe and its streams."""
        take_environ({name: value for name, value in os.environ.items() if not name.startswith(PADDING)})
        # Collections while torch is imported find nothing and take a fifth of that time.
        gc.disable()
        read = load()
        self._loaded = stamps()
        gc.collect()
        gc.freeze()
        gc.enable()
        settle_memory()
        if len(os.listdir("/proc/self/task")) != 1:  # noqa: PTH208
            self._say({"over": "what it has loaded began threads, and a process with threads cannot be forked"})
            return None
        self._say({"ready": True, "read": read, "room": self._room})
        self._wanted_at = time.monotonic()
        while self._short or not self._retired:
            watched: list[Any] = [self._channel, *self._short]
            if self._channel not in select.select(watched, [], [], LOOK_S)[0]:
                self._reap()
                if self._is_over():
                    return None
                continue
            self._reap()
            message, descriptors, _, _ = socket.recv_fds(self._channel, MESSAGE_BYTES, 4)
            if not message:
                return None
            self._wanted_at = time.monotonic()
            if path := self._changed():
                # Nothing is forked any more; it stays for those whose end only it can tell.
                self._retired = True
                self._say({"over": f"{path} is not what it was when it was loaded"})
                for descriptor in descriptors:
                    os.close(descriptor)
                continue
            asked, (go, *streams) = json.loads(message), descriptors
            if self._forked(asked) == 0:
                self._channel.close()
                for pidfd in self._short:
                    os.close(pidfd)
                return asked, go, streams
            for descriptor in descriptors:
                os.close(descriptor)
        return None

    def _changed(self) -> str:
        """A file that is not what it was when it was loaded; empty where all are."""
        if self._wanted_at - self._compared_at < TOGETHER_S:
            return ""
        self._compared_at = self._wanted_at
        return changed(self._loaded)

    def _forked(self, asked: Mapping[str, object]) -> int:
        pid = os.fork()
        if pid:
            self._say({"pid": pid})
            if "argv" in asked:
                self._short[os.pidfd_open(pid)] = pid
        return pid

    def _is_over(self) -> bool:
        free = _free_bytes()
        short = free is not None and free < LEAST_FREE_BYTES
        return not self._short and (short or time.monotonic() - self._wanted_at > IDLE_S)

    def _say(self, words: Mapping[str, object]) -> None:
        with suppress(OSError):
            self._channel.send(json.dumps(words).encode())

    def _reap(self) -> None:
        """Wait for those that have ended, and say how if somebody wants to know."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pidfd = next((pidfd for pidfd, pid in self._short.items() if pid == ended[0]), None)
                if pidfd is not None:
                    del self._short[pidfd]
                    os.close(pidfd)
                    self._say({"exit": ended[0], "code": os.waitstatus_to_exitcode(ended[1])})


def _free_bytes() -> int | None:
    with suppress(OSError, ValueError), open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return None


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


def load() -> tuple[str, ...]:
    """Import everything; the names of the variables that Python code asked for meanwhile."""
    with _recording() as names:
        for name in MODULES:
            importlib.import_module(name)
        _warm_up()
    return tuple(sorted(name for name in names if not name.startswith("MISSION_TUI_") and name not in ONES_OWN))


def _warm_up() -> None:
    """Load what is imported on first use, and find out what is the same for every trainer: forks know it already."""
    import torch

    from mission_tui.envs.mission import load_mission
    from mission_tui.trainer.building.effective import find_facts
    from mission_tui.trainer.torch_compiler import load_without_backward, use_plain_optimizers

    torch.set_num_threads(1)
    use_plain_optimizers()
    load_without_backward()
    find_facts()
    load_mission()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        raise RuntimeError("a GPU library was initialised while loading, and cannot be used after a fork")


def settle_memory() -> None:
    """Arrange what was loaded for a process that waits and is forked; a kernel that cannot do it leaves it as it is.

    What is the process's own goes into huge pages (Linux 6.1): a fork then copies a hundred entries of a page table and
    not 35,000, which takes half the time. Pages of libraries, which loading has read once, are let go of: the page
    cache has them still, and forks never inherit them.
    """
    try:
        size = int(Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").read_text())
    except (OSError, ValueError):
        size = 0
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    for region in _regions():
        if region.is_heap and size:
            for page in range(-(-region.start // size) * size, region.end - size + 1, size):
                # Refused where there is nothing yet, or no such page is free.
                madvise(ctypes.c_void_p(page), ctypes.c_size_t(size), _MADV_COLLAPSE)
        elif region.is_library and region.present_kib >= _WORTH_KIB:
            length = ctypes.c_size_t(region.end - region.start)
            madvise(ctypes.c_void_p(region.start), length, mmap.MADV_DONTNEED)


class _Region(NamedTuple):
    """A stretch of this process's memory: its addresses, how much of it is present, and how much of that its own."""

    start: int
    end: int
    access: str
    name: str
    present_kib: int
    own_kib: int

    @property
    def is_heap(self) -> bool:
        """Whether Python's and C's objects lie here."""
        return self.access == "rw-p" and self.name in ("", "[heap]")

    @property
    def is_library(self) -> bool:
        """Whether all of it is as it stands in its file: where addresses were filled in, it is not."""
        return self.name.startswith("/") and self.access in ("r-xp", "r--p") and self.own_kib == 0


def _regions() -> list[_Region]:
    """What `/proc/self/smaps` says, line by line: all of its text would take a hundredth of what is arranged here."""
    found: list[_Region] = []
    with suppress(OSError), Path("/proc/self/smaps").open() as lines:
        for line in lines:
            first, *rest = line.split(maxsplit=5)
            if not first.endswith(":"):
                start, end = (int(address, 16) for address in first.split("-"))
                found.append(_Region(start, end, rest[0], rest[4].strip() if len(rest) > 4 else "", 0, 0))
            elif first == "Rss:":
                found[-1] = found[-1]._replace(present_kib=int(rest[0]))
            elif first == "Anonymous:":
                found[-1] = found[-1]._replace(own_kib=int(rest[0]))
    return found


@contextmanager
def _recording() -> Iterator[set[str]]:
    """The names that are looked up in `os.environ` inside. Whoever copies the whole of it asks for nothing by name."""
    names: set[str] = set()
    kind = type(os.environ)
    get, walk = kind.__getitem__, kind.__iter__
    copied = 0

    def looking(environ: os._Environ[str], name: str) -> str:
        nonlocal copied
        if copied:
            copied -= 1
        else:
            names.add(name)
        return get(environ, name)

    def walking(environ: os._Environ[str]) -> Iterator[str]:
        nonlocal copied
        copied = len(environ)
        return walk(environ)

    kind.__getitem__, kind.__iter__ = looking, walking  # type: ignore[method-assign]
    try:
        yield names
    finally:
        kind.__getitem__, kind.__iter__ = get, walk  # type: ignore[method-assign]


Stamp = tuple[int, int, int]


def stamps() -> dict[str, Stamp]:
    """Of every file that a module was loaded from: when it was changed, its size and its inode."""
    found: dict[str, Stamp] = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path not in found:
            with suppress(OSError):
                found[path] = _stamp(path)
    return found


def changed(before: Mapping[str, Stamp]) -> str:
    """The first file that is not what it was when it was loaded; empty where all are."""
    for path, stamp in before.items():
        try:
            if _stamp(path) != stamp:
                return path
        except OSError:
            return path
    return ""


def _stamp(path: str) -> Stamp:
    status = os.stat(path)  # noqa: PTH116 - thousands of them before each fork
    return (status.st_mtime_ns, status.st_size, status.st_ino)


if __name__ == "__main__":
    sys.exit(main())
