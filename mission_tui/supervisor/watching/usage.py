"""What live runs take of the machine: processors and memory, read from /proc, and the bytes that runs have on disk.

Two small files a process and look; what is dear to ask for (shares of memory, open files) is asked of one run a look,
of the one that it is oldest of. Bytes on disk are counted rarely, in a thread, and only while a client looks.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from mission_tui.fleet.capacity.machine import KEEPER_BYTES
from mission_tui.fleet.events.processes import Usage, UsageSeen
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.trash import tree_bytes
from mission_tui.supervisor.host.process_files import ProcessStat, open_files, pss_bytes, read_stat, written_bytes
from mission_tui.supervisor.runs.machine_state import MachineState
from mission_tui.supervisor.runs.registry import Runs

DEAR_S, DEAR_UNATTENDED_S = 30.0, 120.0
"""How old PSS and open files of a run may be while a client looks, and while none does.

Sixteen runs with a trainer of half a gigabyte cost 0.5 % of a core at 30 s.
"""
_MIB = 1 << 20
COUNT_LIVE_S = 60.0
COUNT_ENDED_S = 3600.0
SHOWN = 256
"""Runs whose bytes are counted unasked: the live ones, and the ended ones that a snapshot holds."""

SLICE_S = 0.05
"""How long one look may count; the rest waits for the next beat."""


class WrittenBytes:
    """Bytes that the processes of one attempt sent to disks; of those that ended, what they had at the last look."""

    def __init__(self) -> None:
        self._living: dict[tuple[int, int], int] = {}
        self._ended = 0

    def total(self, counts: Mapping[tuple[int, int], int | None]) -> int | None:
        """All bytes so far; `counts` are those of the living by pid and start. None while none are known."""
        now = {who: self._living.get(who, 0) if count is None else count for who, count in counts.items()}
        self._ended += sum(count for who, count in self._living.items() if who not in now)
        self._living = now
        told = self._ended or any(now.values()) or any(count is not None for count in counts.values())
        return self._ended + sum(now.values()) if told else None


class _Attempt(Struct):
    """What is known of the processes of a run's attempt `number`; `costly_at` is when the dear questions were asked."""

    number: int
    stats: dict[int, ProcessStat] = field(default_factory=dict)
    written: WrittenBytes = field(default_factory=WrittenBytes)
    pss_bytes: int | None = None
    open_files: int | None = None
    costly_at: float = -math.inf


class UsageMeter:
    """Looked at every other beat. What a run took is known from the second look on; who came in between counts next."""

    def __init__(self, runs: Runs, machine: MachineState) -> None:
        self._runs = runs
        self._machine = machine
        self._looked_at = 0.0
        self._attempts: dict[str, _Attempt] = {}

    def sample(self, now: float, *, attended: bool) -> None:
        """Note for every live run what it took since the last look, at monotonic `now`."""
        elapsed_s, self._looked_at = now - self._looked_at, now
        before, self._attempts = self._attempts, {}
        for run_id, run in list(self._runs.live.items()):
            known = before.get(run_id)
            self._attempts[run_id] = known if known and known.number == run.attempt else _Attempt(run.attempt)
        self._read_costly_facts(now, DEAR_S if attended else DEAR_UNATTENDED_S)
        for run_id, known in self._attempts.items():
            self._runs.apply_quietly(run_id, UsageSeen(self._usage(run_id, known, elapsed_s)))

    def _family(self, run_id: str) -> list[int]:
        pids = self._runs.store.run(run_id).observed.pids
        return [pid for pid in (pids.keeper, pids.trainer, *pids.workers) if pid is not None]

    def _resident_bytes(self, run_id: str, stats: Mapping[int, ProcessStat]) -> int:
        """Of a keeper no more than one takes: what it was forked off with is the preloader's, and counted once."""
        keeper = self._runs.store.run(run_id).observed.pids.keeper
        return sum(min(it.rss_bytes, KEEPER_BYTES) if pid == keeper else it.rss_bytes for pid, it in stats.items())

    def _read_costly_facts(self, now: float, age_s: float) -> None:
        """Ask the run that was not asked for the longest time, if that is long enough and it has processes."""
        known_ones = [(known.costly_at, run_id) for run_id, known in self._attempts.items() if known.stats]
        costly_at, run_id = min(known_ones, default=(now, ""))
        if now - costly_at < age_s:
            return
        family, known = self._family(run_id), self._attempts[run_id]
        known.pss_bytes = _sum(map(pss_bytes, family))
        known.open_files = _sum(map(open_files, family))
        known.costly_at = now

    def _usage(self, run_id: str, known: _Attempt, elapsed_s: float) -> Usage | None:
        before = known.stats
        known.stats = stats = {pid: stat for pid in self._family(run_id) if (stat := read_stat(pid)) is not None}
        written = known.written.total({(pid, stat.started): written_bytes(pid) for pid, stat in stats.items()})
        gpu, rss_bytes = self._machine.gpu, self._resident_bytes(run_id, stats)
        holders = [pid for pid, it in stats.items() if pid in gpu.held and self._machine.holders.hold(pid, it.started)]
        vram_bytes = _sum(gpu.held[pid] for pid in holders)
        self._runs.live[run_id].update_peaks(rss_bytes, vram_bytes)
        again = [(stat, then) for pid, stat in stats.items() if (then := before.get(pid)) is not None]
        if not again or elapsed_s <= 0.0:
            return None
        spent_s = sum(stat.cpu_s - then.cpu_s for stat, then in again if stat.started == then.started)
        return Usage(
            cpu_percent=float(round(100.0 * spent_s / elapsed_s)),
            rss_bytes=_whole_mib(rss_bytes),
            threads=sum(stat.threads for stat in stats.values()),
            processes=len(stats),
            vram_bytes=vram_bytes,
            pss_bytes=None if known.pss_bytes is None else _whole_mib(known.pss_bytes),
            written_bytes=None if written is None else _whole_mib(written),
            open_files=known.open_files,
            gpu_percent=_percent(gpu.used[pid] for pid in holders if pid in gpu.used),
        )


def _whole_mib(size: int) -> int:
    """Without the digits that change at every look and mean nothing."""
    return size // _MIB * _MIB


def _percent(values: Iterable[float]) -> float | None:
    known = list(values)
    return float(round(sum(known))) if known else None


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class RunSizes:
    """Looked at once a beat. An ended run is counted again soon after its end, and when something of it was removed."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._work: asyncio.Task[None] | None = None

    def poll(self, now: float) -> None:
        """Begin to count the runs that are due at monotonic `now`."""
        if self._work is not None and not self._work.done():
            return
        due = [run_id for run_id in self._runs.store.run_ids()[:SHOWN] if self._is_due(run_id, now)]
        self._work = asyncio.create_task(self._count(due), name="sizes") if due else None
        if self._work is not None:
            self._runs.duties.follow("counting bytes of runs", self._work)

    def _is_due(self, run_id: str, now: float) -> bool:
        counted = self._runs.counted.get(run_id)
        if counted is None:
            return True
        live = run_id in self._runs.live
        return counted.live != live or now - counted.at > (COUNT_LIVE_S if live else COUNT_ENDED_S)

    async def _count(self, due: Sequence[str]) -> None:
        sizes = await asyncio.to_thread(_slice, [self._runs.run_dir(run_id) for run_id in due])
        for run_id, size in sizes.items():
            self._runs.record_size(run_id, size)


def _slice(runs: Sequence[RunDir]) -> dict[str, int]:
    """Bytes of the first of `runs`, as many as there is time for, at least one."""
    sizes: dict[str, int] = {}
    until = time.monotonic() + SLICE_S
    for run in runs:
        sizes[run.id] = tree_bytes(run.path)
        if time.monotonic() > until:
            break
    return sizes
