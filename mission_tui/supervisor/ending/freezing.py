"""Freezing and thawing a run, and noticing when somebody else did either.

`frozen` is what was seen, never what was hoped for: it is journaled when the processes stand, and taken back when the
trainer is seen running. So a supervisor that comes later, or a SIGSTOP from elsewhere, changes nothing about its truth.
SIGSTOP and SIGCONT go to every process of the run but its keeper, as read from /proc below the keeper (below the
trainer, where the keeper is gone). Each is held by a pidfd before it is looked at, and signalled through that pidfd
while its parent is held too.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

from mission_tui.fleet.events.journal import FleetEvent, RunFrozen, RunThawed
from mission_tui.procfs import Stat, read_stat
from mission_tui.supervisor.host.identity import Process, open_process
from mission_tui.supervisor.host.process_files import children_of, holds_gpu, pss_bytes, vram_of
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun

By = Literal["asked", "outside"]

SETTLE_S = 2.0
ROUND_S = 0.02
_STOPPED, _GONE = "T", "ZX"


async def freeze_run(core: Core, run: LiveRun) -> StopStatus | None:
    """Stop every process of the run and journal how they stand; None when it ended or was thawed meanwhile.

    A process that forks while it is stopped is met in the next round: there are rounds until nobody runs, for two
    seconds. Whoever runs even then (it hangs in the kernel, and stops when it leaves it) is named.
    """
    run.freeze()
    deadline = time.monotonic() + SETTLE_S
    # The kernel tells nobody but a parent that a process stopped.
    while _may_freeze(core, run) and signal_running(run) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(ROUND_S)
    if not _may_freeze(core, run):
        return None
    stand = await asyncio.to_thread(stop_status, run, core.machine.gpu.held)
    if not _may_freeze(core, run):
        return None
    core.record_observed(run, partial(_frozen, run.attempt, "asked", stand))
    return stand


def thaw_run(core: Core, run: LiveRun) -> None:
    """Let every stopped process of the run go on; journaled when it was frozen."""
    run.thaw()
    signal_stopped(run)
    if core.store.run(run.id).journal.frozen is not None:
        core.record_observed(run, lambda seq, t: RunThawed(seq, t, run.attempt))


def take_up_freeze(core: Core, run: LiveRun, asked: bool) -> None:
    """After a restart: finish a freeze that was asked and not seen done. A beat later its truth is looked at anyway."""
    known = core.store.run(run.id)
    if known.journal.frozen is not None:
        run.freeze()
    if asked and known.state not in ("frozen", "stopping") and run.trainer is not None:
        run.finish_freeze(asyncio.create_task(freeze_run(core, run), name=f"freeze {run.id}"))


def watch_stops(core: Core, run: LiveRun) -> None:
    """Once a beat: take in that somebody stopped the trainer, or that it runs although it was frozen."""
    known = core.store.run(run.id)
    stops = is_stopped(run.trainer) if run.trainer is not None else None
    if stops is None or known.state == "stopping":
        return
    if not stops:
        run.count_stopped(stopped=False)
        if known.journal.frozen is not None:
            run.thaw()
            core.record_observed(run, lambda seq, t: RunThawed(seq, t, run.attempt, by="outside"))
    # Twice in a row: a debugger or a shell may stop a process for a moment.
    elif known.journal.frozen is None and not run.freezes and run.count_stopped(stopped=True) > 1:
        core.record_observed(run, partial(_frozen, run.attempt, "outside", stop_status(run, core.machine.gpu.held)))


def _may_freeze(core: Core, run: LiveRun) -> bool:
    return run.freezes and core.live.get(run.id) is run


def _frozen(attempt: int, by: By, stand: StopStatus, seq: int, t: float) -> FleetEvent:
    memory, vram = stand.memory_bytes, stand.vram_bytes
    return RunFrozen(seq, t, attempt, by, stand.stopped, stand.running, memory, stand.gpu, vram)


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
