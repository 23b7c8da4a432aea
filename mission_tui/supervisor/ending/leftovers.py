"""What dead runs left behind: processes that carry a run's marker, judged by the rules of identity.

A process without a living keeper is `ours` only when all of these hold: same user, the right nonce, started no earlier
than the run on this boot, and in the run's session or below a process that is. Anything else that carries the marker is
shown as `unverifiable` and never signalled. Who holds the lease of another directory, or lives below somebody who does,
belongs to that one, whatever its variables say: a copy may lie where the original was. Snapshots show them by run.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from mission_tui.errors import DamagedError
from mission_tui.fleet.views.snapshot import StaleRun
from mission_tui.process_name import short_name
from mission_tui.procfs import Stat, boot_id, own_processes, read_stat
from mission_tui.records.runs.attempt import Identity, read_identity, read_launch
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host.identity import Process, open_process
from mission_tui.supervisor.host.lease import command_of, holds_another, is_marked_for, marker_of
from mission_tui.supervisor.host.process_files import rss_bytes, vram_of
from mission_tui.supervisor.runs.core import Core

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Leftover:
    """A marked process of an attempt of a run; `start_time` in clock ticks tells it from a later one of its number."""

    pid: int
    start_time: int
    run: str
    attempt: int
    verdict: Literal["ours", "unverifiable"]
    command: str
    age_s: float
    memory_bytes: int | None

    @property
    def key(self) -> str:
        return f"process:{self.pid}:{self.start_time}"


def find_leftovers(root: Path, is_spared: Callable[[str, int], bool]) -> list[Leftover]:
    """Marked processes of runs below `root` for whose run and attempt `is_spared` is false, by pid."""
    stats = {stat.pid: stat for stat in own_processes() if stat.state != "Z"}
    found = []
    for pid, stat in sorted(stats.items()):
        marker = marker_of(pid)
        if marker is None or pid == os.getpid():
            continue
        run = RunDir(root / marker["MISSION_TUI_RUN"])
        attempt = int(marker["MISSION_TUI_ATTEMPT"]) if marker["MISSION_TUI_ATTEMPT"].isdigit() else 0
        if not is_marked_for(marker, run) or is_spared(run.id, attempt):
            continue
        if _nonce(run, attempt) != marker["MISSION_TUI_NONCE"] or _is_of_another(stat, stats, run):
            continue
        found.append(_leftover(run, attempt, stat, stats))
    return found


def remove_leftover(leftover: Leftover) -> bool:
    """SIGKILL the process, once more checked through its own pidfd; False when it is gone or is another one now."""
    process = open_process(leftover.pid)
    if process is None:
        return False
    try:
        return _is(process, leftover) and process.send(signal.SIGKILL)
    finally:
        process.close()


def _is(process: Process, leftover: Leftover) -> bool:
    stat = read_stat(process.pid)
    marker = marker_of(process.pid)
    same = stat is not None and stat.start_time == leftover.start_time
    marked = marker is not None and marker["MISSION_TUI_RUN"] == leftover.run
    return same and marked and process.alive()


def _nonce(run: RunDir, attempt: int) -> str | None:
    try:
        order = read_launch(run.attempt(attempt).launch)
    except (DamagedError, OSError):
        return None
    return None if order is None else order.nonce


def _leftover(run: RunDir, attempt: int, stat: Stat, stats: dict[int, Stat]) -> Leftover:
    try:
        identity = read_identity(run.attempt(attempt).identity)
    except (DamagedError, OSError):
        identity = None
    ours = identity is not None and identity.boot_id == boot_id() and _belongs(stat, stats, identity)
    uptime_s = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    return Leftover(
        pid=stat.pid,
        start_time=stat.start_time,
        run=run.id,
        attempt=attempt,
        verdict="ours" if ours else "unverifiable",
        command=command_of(stat.pid),
        age_s=max(0.0, uptime_s - stat.start_time / _TICKS),
        memory_bytes=rss_bytes(stat.pid),
    )


def _is_of_another(stat: Stat, stats: dict[int, Stat], run: RunDir) -> bool:
    """Whether the process, or a living ancestor, holds the lease of another directory of the run's name."""
    seen: Stat | None = stat
    while seen is not None:
        if holds_another(seen.pid, run):
            return True
        seen = stats.get(seen.parent)
    return False


def _belongs(stat: Stat, stats: dict[int, Stat], identity: Identity) -> bool:
    """Whether the process, or a living ancestor, is in the run's session and none of them is older than the run.

    A session's number is not given away while one of its members lives.
    """
    seen: Stat | None = stat
    while seen is not None and seen.start_time >= identity.keeper.start_time:
        if seen.session == identity.session:
            return True
        seen = stats.get(seen.parent)
    return False


async def find_stale(core: Core) -> None:
    """Find them, off the event loop, and have the snapshot say so."""
    core.orphaned = False
    found = await asyncio.to_thread(find_leftovers, core.root, core.is_spared)
    core.store.observe_surroundings(stale=stale_runs(found, core.machine.gpu.held, core.name_of))
    core.changed.set()


def stale_runs(
    found: Sequence[Leftover], held: Mapping[int, int | None], name_of: Callable[[str], str]
) -> tuple[StaleRun, ...]:
    """The leftovers by run. `held` are bytes of GPU memory by process."""
    by_run = groupby(sorted(found, key=lambda item: item.run), key=lambda item: item.run)
    return tuple(_of_run(run, name_of(run), list(items), held) for run, items in by_run)


def _of_run(run: str, name: str, items: Sequence[Leftover], held: Mapping[int, int | None]) -> StaleRun:
    memory = [item.memory_bytes for item in items if item.memory_bytes is not None]
    vram = [size for item in items if (size := vram_of(item.pid, held)) is not None]
    return StaleRun(
        run=run,
        name=name or short_name(run),
        processes=len(items),
        unsure=sum(item.verdict != "ours" for item in items),
        memory_bytes=sum(memory) if memory else None,
        vram_bytes=sum(vram) if vram else None,
    )
