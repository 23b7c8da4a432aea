"""What is imported before the first fork, and which module would have imported it otherwise.

Nothing of the user's is imported, no environment or network is built, no operation that could start a thread is run:
a fork of a process with threads is a process in which locks stay taken for ever.
"""

from __future__ import annotations

import ctypes
import importlib
import mmap
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mission_tui.preloader import ONES_OWN

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
