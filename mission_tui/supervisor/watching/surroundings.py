"""What goes on beside the runs here: programs that take much of the machine, and runs at other runs roots.

A process is ours if it, or any process above it, is the supervisor or belongs to a live run. It is looked for rarely:
it reads all of /proc. How many runs live here is written down for the screens of other roots; how many live there is
read while a client watches.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import OtherProgram
from mission_tui.ipc.start import live_roots, write_live_count
from mission_tui.procfs import process_ids
from mission_tui.records.runs_roots import MOST_ENDS, note_ends
from mission_tui.supervisor.host.process_files import ProcessStat, read_stat, vram_of
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
