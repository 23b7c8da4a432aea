"""A process and all below it, as /proc tells: stopped together, let go on together, and counted.

Each is held by a pidfd before it is looked at, and signalled through that pidfd while its parent is held too.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from mission_tui.procfs import Stat, read_stat
from mission_tui.supervisor.host.identity import Process, open_process
from mission_tui.supervisor.host.process_files import children_of, holds_gpu, pss_bytes, vram_of

_STOPPED, _GONE = "T", "ZX"
Members = Iterable[tuple[Process, Stat]]


@dataclass(frozen=True, slots=True)
class StopStatus:
    """How a run's processes stand: how many are stopped, which run, what all hold; `gpu`: one of them holds a GPU.

    Bytes are None where nobody tells them.
    """

    stopped: int
    running: tuple[int, ...]
    memory_bytes: int | None
    vram_bytes: int | None
    gpu: bool


def with_descendants(process: Process) -> Iterator[tuple[Process, Stat]]:
    """The living process and those below it, parents before their children, each held while it is looked at."""
    if process.alive() and (stat := read_stat(process.pid)) is not None:
        yield process, stat
        yield from descendants_of(process)


def descendants_of(parent: Process) -> Iterator[tuple[Process, Stat]]:
    """The processes below `parent`, parents before their children, each held while it is looked at."""
    for pid in children_of(parent.pid):
        try:
            process = open_process(pid)
            stat = None if process is None else read_stat(pid)
        except (OSError, ValueError):
            continue
        if process is None:
            continue
        try:
            # The number may have changed hands since the list was made: only who names a held parent is ours.
            if stat is not None and stat.parent == parent.pid and stat.state not in _GONE and process.alive():
                yield process, stat
                yield from descendants_of(process)
        finally:
            process.close()


def is_stopped(process: Process) -> bool | None:
    """Whether the held process is stopped by a signal; None when that cannot be read."""
    with suppress(OSError, ValueError):
        stat = read_stat(process.pid)
        if stat is not None and process.alive():
            return stat.state == _STOPPED
    return None


def stop_running(members: Members) -> int:
    """SIGSTOP to every one of them that is not stopped; how many there were."""
    return _signal(members, signal.SIGSTOP, lambda stat: stat.state != _STOPPED)


def continue_stopped(members: Members) -> int:
    """SIGCONT to every one of them that is stopped; how many there were."""
    return _signal(members, signal.SIGCONT, lambda stat: stat.state == _STOPPED)


def read_stop_status(members: Members, held: Mapping[int, int | None]) -> StopStatus:
    """How they stand now; `held` are bytes of GPU memory by process, as the probe said them.

    Reads all their memory maps, which takes a moment.
    """
    stopped, gpu = 0, False
    running: list[int] = []
    memory: list[int | None] = []
    vram: list[int | None] = []
    for process, stat in members:
        if stat.state == _STOPPED:
            stopped += 1
        else:
            running.append(process.pid)
        memory.append(pss_bytes(process.pid))
        vram.append(vram_of(process.pid, held))
        gpu = gpu or vram[-1] is not None or holds_gpu(process.pid)
    return StopStatus(stopped, tuple(running), _known(memory), _known(vram), gpu)


def _known(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _signal(members: Members, number: signal.Signals, meant: Callable[[Stat], bool]) -> int:
    return sum(meant(stat) and process.send(number) for process, stat in members)
