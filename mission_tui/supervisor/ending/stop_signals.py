"""SIGSTOP and SIGCONT for every process of a run but its keeper, and what the stopped ones hold.

Who belongs to a run is read from /proc below its keeper (below its trainer, where the keeper is gone). Each process is
held by a pidfd before it is looked at, and signalled through that pidfd while its parent is held too.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from mission_tui.supervisor.identity import Process, Stat, open_process, read_stat
from mission_tui.supervisor.meters.descendants import children_of
from mission_tui.supervisor.meters.process_files import pss_bytes
from mission_tui.supervisor.meters.vram import holds_gpu, vram_of
from mission_tui.supervisor.run import LiveRun

__all__ = ["StopStatus", "is_stopped", "signal_running", "signal_stopped", "stop_status"]

_STOPPED, _GONE = "T", "ZX"


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


def is_stopped(process: Process) -> bool | None:
    """Whether the held process is stopped by a signal; None when that cannot be read."""
    with suppress(OSError, ValueError):
        stat = read_stat(process.pid)
        if stat is not None and process.alive():
            return stat.state == _STOPPED
    return None


def signal_running(run: LiveRun) -> int:
    """SIGSTOP to every process of the run that is not stopped; how many there were."""
    return _signal(run, signal.SIGSTOP, lambda stat: stat.state != _STOPPED)


def signal_stopped(run: LiveRun) -> int:
    """SIGCONT to every stopped process of the run; how many there were."""
    return _signal(run, signal.SIGCONT, lambda stat: stat.state == _STOPPED)


def stop_status(run: LiveRun, held: Mapping[int, int | None]) -> StopStatus:
    """How the run's processes stand now; `held` are bytes of GPU memory by process, as the probe said them.

    Reads all their memory maps, which takes a moment.
    """
    stopped, gpu = 0, False
    running: list[int] = []
    memory: list[int | None] = []
    vram: list[int | None] = []
    for process, stat in _members(run):
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


def _signal(run: LiveRun, number: signal.Signals, meant: Callable[[Stat], bool]) -> int:
    return sum(meant(stat) and process.send(number) for process, stat in _members(run))


def _members(run: LiveRun) -> Iterator[tuple[Process, Stat]]:
    """The run's living processes, parents before their children, each held while it is looked at."""
    if run.keeper is not None and run.keeper.alive():
        yield from _below(run.keeper)
    elif run.trainer is not None and run.trainer.alive() and (stat := read_stat(run.trainer.pid)) is not None:
        yield run.trainer, stat
        yield from _below(run.trainer)


def _below(parent: Process) -> Iterator[tuple[Process, Stat]]:
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
                yield from _below(process)
        finally:
            process.close()
