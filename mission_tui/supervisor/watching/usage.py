"""What live runs take of the machine, and what goes on beside them: other programs, and runs at other runs roots.

A process is ours if it, or any process above it, is the supervisor or belongs to a live run. Others are looked for
rarely: that reads all of /proc. How many runs live here is written down for the screens of other roots; how many live
there is read while a client watches.

Of a live run two small files a process are read at each look; what is dear to ask for (shares of memory, open files) is
asked of one run a look, of the one that it is oldest of. Bytes on disk are counted rarely, in a thread, and only while
a client looks.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import pwd
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from mission_tui.fleet.capacity.demand import KEEPER_BYTES
from mission_tui.fleet.events.processes import Usage, UsageSeen
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import OtherProgram
from mission_tui.ipc.start import live_roots, write_live_count
from mission_tui.procfs import process_ids
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.trash import tree_bytes
from mission_tui.records.runs_roots import MOST_ENDS, note_ends
from mission_tui.supervisor.host.process_files import (
    TICK_S,
    ProcessStat,
    open_files,
    pss_bytes,
    read_stat,
    vram_of,
    written_bytes,
)
from mission_tui.supervisor.runs.machine_state import MachineState
from mission_tui.supervisor.runs.registry import Runs

MOST = 5
MUCH_CPU_PERCENT = 20.0
MUCH_RSS_BYTES = 1 << 30
MUCH_VRAM_BYTES = 64 << 20
"""Less of a GPU's memory the driver itself takes."""
ATTENDED_S, UNATTENDED_S = 10.0, 60.0
"""How old the last look may be while a client looks, and while runs live without one."""
BASELINE_S = 120.0
"""How old the look before may be, for the processor time since to say something of now."""
FIRST_S = 2.0
"""How soon a first look, which knows nothing of processors, is followed by another."""
SURVEY_S = 0.5
"""How long an answer waits for a look; names of users may come over a network."""
_MIB = 1 << 20
_NAME_CHARS = 40
_INTERPRETERS = ("python", "node", "java", "ruby", "perl", "bash", "sh", "julia", "Rscript")
LOOK_BEATS = 3
log = logging.getLogger(__name__)


class OtherPrograms:
    """Finds them in a thread, at most one at a time, and has the machine's meters name the few that take most."""

    def __init__(self, runs: Runs, machine: MachineState) -> None:
        self._runs = runs
        self._machine = machine
        self._looked_at = float("-inf")
        self._before: dict[int, ProcessStat] = {}
        self._based = True
        """Whether the last look had an earlier one to compare with."""
        self._looking: asyncio.Task[None] | None = None

    def poll(self, *, attended: bool) -> None:
        """To be called every second: looks anew where that is due."""
        if attended or self._runs.live:
            self._begin(ATTENDED_S if attended else UNATTENDED_S)

    async def survey(self) -> bool:
        """Look now if the last look is old; waits for a moment, and says whether there was a look."""
        self._begin(ATTENDED_S)
        if self._looking is None or self._looking.done():
            return False
        await asyncio.wait({self._looking}, timeout=SURVEY_S)
        return True

    def _begin(self, age_s: float) -> None:
        now, at_work = time.monotonic(), self._looking is not None and not self._looking.done()
        if at_work or now - self._looked_at < (age_s if self._based else FIRST_S):
            return
        elapsed_s, self._looked_at = now - self._looked_at, now
        self._looking = asyncio.create_task(self._scan(elapsed_s), name="others")
        self._runs.duties.follow("survey of other programs", self._looking)

    async def _scan(self, elapsed_s: float) -> None:
        self._based = elapsed_s <= BASELINE_S
        before = self._before if self._based else {}
        ours = {os.getpid()}
        for run_id in self._runs.live:
            pids = self._runs.store.run(run_id).observed.pids
            ours |= {pid for pid in (pids.keeper, pids.trainer) if pid is not None}
        self._before = await asyncio.to_thread(all_stats)
        taken = taken_by_others(self._before, before, elapsed_s, ours)
        self._machine.others = await asyncio.to_thread(_named, taken, dict(self._machine.gpu.held))


class ProcessUse(Struct, frozen=True):
    """What a process takes; `cpu_percent` is None where it was not there at the last look."""

    pid: int
    cpu_percent: float | None
    rss_bytes: int


def taken_by_others(
    now: Mapping[int, ProcessStat], before: Mapping[int, ProcessStat], elapsed_s: float, ours: Collection[int]
) -> list[ProcessUse]:
    """Every process that neither is one of `ours` nor was started by one, through whomever."""
    verdicts = dict.fromkeys(ours, True)

    def is_ours(pid: int) -> bool:
        chain = []
        while pid not in verdicts and pid in now:
            chain.append(pid)
            # A process that is its own ancestor, in a reading that took a while, is not ours.
            verdicts[pid] = False
            pid = now[pid].parent
        verdict = verdicts.get(pid, False)
        verdicts.update(dict.fromkeys(chain, verdict))
        return verdict

    return [
        ProcessUse(pid, _cpu_percent(stat, before.get(pid), elapsed_s), stat.rss_bytes)
        for pid, stat in now.items()
        if not is_ours(pid)
    ]


def _cpu_percent(stat: ProcessStat, then: ProcessStat | None, elapsed_s: float) -> float | None:
    if then is None or then.started != stat.started:
        return None
    return float(round(100.0 * (stat.cpu_s - then.cpu_s) / elapsed_s))


def all_stats() -> dict[int, ProcessStat]:
    """Every process of the machine that can be seen, by its number."""
    return {pid: stat for pid in process_ids() if (stat := read_stat(pid)) is not None}


def _named(taken: list[ProcessUse], held: Mapping[int, int | None]) -> tuple[OtherProgram, ...]:
    """Those worth showing: who holds GPU memory first, then by processor, then by memory."""
    found = []
    for each in taken:
        vram = vram_of(each.pid, held) if (held.get(each.pid) or 0) >= MUCH_VRAM_BYTES else None
        much = (each.cpu_percent or 0.0) >= MUCH_CPU_PERCENT or each.rss_bytes >= MUCH_RSS_BYTES
        if vram is not None or much:
            found.append(((vram or 0, each.cpu_percent or 0.0, each.rss_bytes), each, vram))
    found.sort(key=lambda it: it[0], reverse=True)
    return tuple(
        OtherProgram(it.pid, program_name(it.pid), _user(it.pid), it.cpu_percent, it.rss_bytes // _MIB * _MIB, vram)
        for _, it, vram in found[:MOST]
    )


def program_name(pid: int) -> str:
    """What runs, and the script if it is an interpreter; no other argument, since those may hold secrets."""
    words: list[str] = []
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace").rstrip("\0").split("\0")
    if not words or not words[0]:
        with suppress(OSError):
            return clean(Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace"), _NAME_CHARS)
        return "unknown"
    if " " in words[0] and not words[0].startswith("/"):
        return clean(words[0], _NAME_CHARS)  # a title that it gave itself
    name = Path(words[0]).name
    script = _script(words[1:]) if name.startswith(_INTERPRETERS) else ""
    return clean(f"{name} {script}".rstrip(), _NAME_CHARS)


def _script(words: list[str]) -> str:
    """The file or module that an interpreter was given; nothing where it was given code."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "-m":
            return following
        if word in ("-c", "-e"):
            return ""
        if not word.startswith("-"):
            return Path(word).name
    return ""


def _user(pid: int) -> str:
    try:
        uid = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return "unknown"
    try:
        return clean(pwd.getpwuid(uid).pw_name, _NAME_CHARS)
    except KeyError:
        return str(uid)


class OtherRoots:
    """Looks once a beat; what takes the disk or other supervisors is done off the event loop."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._told: int | None = None
        self._over: tuple[str, ...] = ()
        self._began_t = time.time()
        self._noting: asyncio.Task[None] | None = None
        self._beats = 0
        self._looking: asyncio.Task[None] | None = None

    def poll(self, *, attended: bool) -> None:
        """Write down how many runs live or wait here, when that changed; find other roots while a client watches."""
        live = len(self._runs.store.live_ids())
        self._note_ends(live)
        if live != self._told:
            try:
                write_live_count(self._runs.root, live)
                self._told = live
            except OSError as error:
                log.warning("other screens are not told of the runs here: %s", error)
        if attended and self._beats % LOOK_BEATS == 0 and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._find_other_roots(), name="elsewhere")
            self._runs.duties.follow("search for other roots", self._looking)
        self._beats = self._beats + 1 if attended else 0

    def _note_ends(self, live: int) -> None:
        """Which runs ended last, where that changed: screens of another runs root say so."""
        store = self._runs.store
        over = tuple(store.run_ids()[live : live + MOST_ENDS])
        if over == self._over or (self._noting is not None and not self._noting.done()):
            return
        self._over = over
        ended = [view.ended_t for view in store.ended(0, MOST_ENDS)[0] if view.ended_t is not None]
        note = partial(note_ends, self._runs.root, ended, os.environ, self._began_t)
        self._noting = asyncio.create_task(asyncio.to_thread(note), name="ends")
        self._runs.duties.follow("noting ends for other roots", self._noting)

    def forget(self) -> None:
        """The socket folder was made again: nothing is written in it yet."""
        self._told = None

    async def _find_other_roots(self) -> None:
        roots = await asyncio.to_thread(live_roots, self._runs.root)
        self._runs.store.observe_surroundings(elsewhere=roots)
        self._runs.changed.set()


DEAR_S, DEAR_UNATTENDED_S = 30.0, 120.0
"""How old PSS and open files of a run may be while a client looks, and while none does.

Sixteen runs with a trainer of half a gigabyte cost 0.5 % of a core at 30 s.
"""
COUNT_LIVE_S = 60.0
COUNT_ENDED_S = 3600.0
SHOWN = 256
"""Runs whose bytes are counted unasked: the live ones, and the ended ones that a snapshot holds."""

SLICE_S = 0.05
"""How long one look may count; the rest waits for the next beat."""


Stats = Mapping[int, ProcessStat]


def inherited(before: Stats, now: Stats) -> dict[int, list[int]]:
    """By process that lives on, those below it that were there before and ended since: the kernel adds what a process
    took to the counts of the one that waits for it. Where nothing was added nobody waited, and they are left out.
    """
    ended: dict[int, list[int]] = {}
    for pid, stat in before.items():
        if _lives_on(pid, before, now):
            continue
        above = stat.parent
        while above in before and not _lives_on(above, before, now):
            above = before[above].parent
        if above in before:
            ended.setdefault(above, []).append(pid)
    return {
        pid: gone
        for pid, gone in ended.items()
        # A tick for each is lost where the kernel rounds.
        if now[pid].children_s - before[pid].children_s + TICK_S * (1 + len(gone)) >= _all_s(before, gone)
    }


def spent_s(before: Stats, now: Stats, ended: Mapping[int, Collection[int]], since_s: float) -> float:
    """Processor seconds of a family from one look, at `since_s` of `CLOCK_BOOTTIME`, to the next: those of its
    processes, of the ones that came since, and of children that came and ended in between. `ended` is `inherited`.
    """
    spent = 0.0
    for pid, stat in now.items():
        if _lives_on(pid, before, now):
            known_s = _all_s(before, ended.get(pid, ()))
            spent += stat.cpu_s - before[pid].cpu_s + max(0.0, stat.children_s - before[pid].children_s - known_s)
        elif stat.started_s >= since_s - TICK_S:
            spent += stat.cpu_s + stat.children_s
    return spent


def _lives_on(pid: int, before: Stats, now: Stats) -> bool:
    return pid in before and pid in now and now[pid].started == before[pid].started


def _all_s(stats: Stats, pids: Iterable[int]) -> float:
    return math.fsum(stats[pid].cpu_s + stats[pid].children_s for pid in pids)


class WrittenBytes:
    """Bytes that the processes of one attempt sent to disks; of those that ended, what they had at the last look."""

    def __init__(self) -> None:
        self._living: dict[tuple[int, int], int] = {}
        self._ended = 0

    def total(
        self, counts: Mapping[tuple[int, int], int | None], inherited: Collection[tuple[int, int]] = ()
    ) -> int | None:
        """All bytes so far; `counts` are those of the living by pid and start. None while none are known.

        Bytes of those that ended and are `inherited` are in the counts of who waited for them.
        """
        now = {who: self._living.get(who, 0) if count is None else count for who, count in counts.items()}
        self._ended += sum(count for who, count in self._living.items() if who not in now and who not in inherited)
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
    """Looked at every other beat. What a run took is known from the second look on."""

    def __init__(self, runs: Runs, machine: MachineState) -> None:
        self._runs = runs
        self._machine = machine
        self._looked_at = 0.0
        self._looked_at_boot_s = 0.0
        self._attempts: dict[str, _Attempt] = {}

    def sample(self, now: float, *, attended: bool) -> None:
        """Note for every live run what it took since the last look, at monotonic `now`."""
        elapsed_s, self._looked_at = now - self._looked_at, now
        since_s, self._looked_at_boot_s = self._looked_at_boot_s, time.clock_gettime(time.CLOCK_BOOTTIME)
        before, self._attempts = self._attempts, {}
        for run_id, run in list(self._runs.live.items()):
            known = before.get(run_id)
            self._attempts[run_id] = known if known and known.number == run.attempt else _Attempt(run.attempt)
        self._read_costly_facts(now, DEAR_S if attended else DEAR_UNATTENDED_S)
        for run_id, known in self._attempts.items():
            self._runs.apply_quietly(run_id, UsageSeen(self._usage(run_id, known, elapsed_s, since_s)))

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

    def _usage(self, run_id: str, known: _Attempt, elapsed_s: float, since_s: float) -> Usage | None:
        before = known.stats
        known.stats = stats = {pid: stat for pid in self._family(run_id) if (stat := read_stat(pid)) is not None}
        ended = inherited(before, stats)
        waited_for = {(pid, before[pid].started) for gone in ended.values() for pid in gone}
        written = known.written.total(
            {(pid, stat.started): written_bytes(pid) for pid, stat in stats.items()}, waited_for
        )
        gpu, rss_bytes = self._machine.gpu, self._resident_bytes(run_id, stats)
        holders = [pid for pid, it in stats.items() if pid in gpu.held and self._machine.holders.hold(pid, it.started)]
        vram_bytes = _sum(gpu.held[pid] for pid in holders)
        self._runs.live[run_id].update_peaks(rss_bytes, vram_bytes, self._runs.store.run(run_id).metrics.row)
        if not before.keys() & stats.keys() or elapsed_s <= 0.0:
            return None
        return Usage(
            cpu_percent=float(round(100.0 * spent_s(before, stats, ended, since_s) / elapsed_s)),
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
