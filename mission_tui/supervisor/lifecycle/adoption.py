"""Rebuilding the fleet from disk: every run directory is read again, and living processes are watched again. And
directories that arrive in the runs root, or leave it, while the supervisor lives: known some seconds later.

Nothing found there is fatal. What is damaged is shown as damaged, once in the journal of its run, and whatever can be
concluded from the other files is.

Of all but the newest ended runs only name and end are kept: the whole of one is loaded when it is asked for.

A copy grows while it is made, so a directory is taken in once nothing of it has changed between two looks. What is
foreign or has ended is taken in; a run of our own that has not would be begun or watched, and waits for the next
supervisor. An ended run whose directory somebody removed or moved away is known no more, once two looks have missed it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Generator, Iterator, Sequence, Set
from contextlib import suppress
from functools import partial
from pathlib import Path

from mission_tui.errors import DamagedError, MissionError
from mission_tui.fleet.events import journal as facts
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.fleet.events.outcome import Failed
from mission_tui.fleet.events.processes import FlagSeen, ForeignSeen
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.records.jsonl import MOST_BYTES
from mission_tui.records.runs.attempt import read_exit
from mission_tui.records.runs.layout import RunDir, run_dirs
from mission_tui.records.runs.seal import Seals, words_of_change
from mission_tui.supervisor.ending.ladder import flag_unkillable, take_up_freeze
from mission_tui.supervisor.host.children import task_about
from mission_tui.supervisor.lifecycle.attempts import first_turn, open_live_run, watch_or_finish
from mission_tui.supervisor.lifecycle.outcome import abandon, decide_restart
from mission_tui.supervisor.runs import run_on_disk
from mission_tui.supervisor.runs.clock_steps import missed_step
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.journal import Make, RunJournal, damaged
from mission_tui.supervisor.runs.registry import Runs, stamp_of
from mission_tui.supervisor.runs.run_on_disk import taking_in as taking_in_runs
from mission_tui.supervisor.watching.finding_actions import react_to_due
from mission_tui.supervisor.watching.metrics_feed import judge_some, read_news

READ_S = 1800.0
"""How long one run may keep this process busy before it is given up; a million updates take a third of it."""
QUIET_S = 600.0
"""Nothing that is asked of an ended run, and nothing that is done about its end, takes as long as this."""
UNLOAD_S = 0.01
"""How long unloading runs, or loading them again, keeps the loop in a beat: some tens of them, or a few."""

log = logging.getLogger(__name__)


def taking_in(core: Core) -> Iterator[None]:
    """Know every run of the runs root: adopt the live ones, load the newest ended ones, leave the rest unloaded.

    What is not loaded has its name, its end and its place in every list; it stands in `core.waiting` until it is wanted
    or `load_waiting` comes to it.
    """
    core.fetch = partial(load_waiting, core)
    runs = list(run_dirs(core.root))
    core.reading.expect(len(runs))
    yield from taking_in_runs(_Adoption(core), runs)


def taking_in_more(core: Core, runs: Sequence[RunDir]) -> Iterator[None]:
    """Know `runs`, which came into the runs root since: the last to end first, older ones as at the start."""
    return taking_in_runs(_Adoption(core), runs)


class _Adoption:
    """How the supervisor takes runs in: it mends what is missing, watches what lives, and logs what it gives up."""

    most_s = READ_S

    def __init__(self, core: Core) -> None:
        self._core = core
        self.store = core.store
        self.waiting = core.waiting
        self.adopting = partial(adopting, core)
        self.loading = partial(_loading, core)
        self.directory_read = core.reading.read_one

    def show_damaged(self, run: RunDir, why: str, error: Exception | None = None) -> None:
        if error is not None:
            log.error("%s cannot be taken in", run.id, exc_info=error)
        show_damaged(self._core, run, why)


def take_in_anew(core: Core, run_dir: RunDir) -> None:
    """Know a run as its files tell of it now, whatever was known of it before; nothing of it may live here.

    What it raises makes it a damaged row, as at the start.
    """
    if run_dir.id in core.store:
        core.forget(run_dir.id)
    run_on_disk.finish(run_on_disk.taking_one(_Adoption(core), run_dir))


def show_damaged(runs: Runs, run_dir: RunDir, why: str) -> None:
    """Know of a run only that it cannot be read, and why. Nothing is written or started there, and nobody signalled."""
    live = runs.live.pop(run_dir.id, None)
    if live is not None:
        with suppress(MissionError):
            live.release()
    if run_dir.id in runs.store:
        runs.forget(run_dir.id)
    runs.add(run_dir, None)
    for fact in run_on_disk.unreadable_facts(run_dir, why):
        runs.store.apply(run_dir.id, fact)


def load_waiting(core: Core, run_id: str, newest_bytes: int = run_on_disk.LAST_BYTES) -> None:
    """Load the whole of an ended run that is not loaded; of any other nothing is read."""
    if run_id not in core.live:
        core.fetched[run_id] = time.monotonic()
    if run_id in core.waiting:
        del core.waiting[run_id]
        run_dir = core.run_dir(run_id)
        try:
            load_ended(core, run_on_disk.read_run(run_dir), newest_bytes)
        except Exception as error:
            log.exception("%s cannot be read", run_id)
            show_damaged(core, run_dir, run_on_disk.why_unreadable(error))


def view_of_waiting(core: Core, run_id: str, *, asked: bool = True) -> RunView:
    """The whole view of an ended run that is not loaded, which it is not afterwards either: what is done about an older
    run is done, and of twenty thousand only how they ended stays in memory. One that somebody has to see stays known.

    What somebody `asked` for, and while there is room whatever was seen, is not read again before it is changed.
    """
    run_dir, views = core.run_dir(run_id), core.unloaded_views
    kept = views.get(run_dir)
    if kept is not None:
        return kept
    ends = core.store.ends_of(run_id)
    stamp = stamp_of(run_dir, ends[1].attempt) if ends is not None else 0
    load_waiting(core, run_id)
    view = core.store.view(run_id)
    if ends is not None and _can_wait(core, run_id, ends[0]):
        _unload(core, run_id, *ends)
        if asked or not views.full:
            views.keep(run_dir, view, stamp)
    return view


def _can_wait(core: Core, run_id: str, made: facts.RunCreated) -> bool:
    """Whether nothing is lost where a run that is loaded is unloaded; `made` says its name then."""
    run, view = core.store.run(run_id), core.store.view(run_id)
    same_words = (clean(made.name), clean(made.group or "")) == (view.name, view.group or "")
    return same_words and run.state == "ended" and not view.flags and not run.journal.foreign


def _unload(core: Core, run_id: str, made: facts.RunCreated, over: facts.AttemptEnded) -> None:
    core.store.unload(run_id, core.store.run(run_id).run_dir, made, over)
    core.waiting[run_id] = None
    core.fetched.pop(run_id, None)


class Unloading:
    """Unloads ended runs while this process lives, as a start would: each takes some twenty kilobytes, and
    thousands end in weeks. Those that a snapshot shows stay known, and those that somebody asked for a moment ago.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._unfit: dict[str, int] = {}
        """By the number of its last event then, what the files of a run do not show as ended in a short summary."""

    def load_shown(self) -> None:
        """Read some of the runs that a snapshot shows since newer ones were removed: it has only their end."""
        core, begun = self._core, time.monotonic()
        if core.reading.whole.is_set():
            for run_id in core.store.shown_ended_ids():
                if run_id in core.waiting:
                    load_waiting(core, run_id, run_on_disk.SPARKLINE_BYTES)
                    if time.monotonic() - begun > UNLOAD_S:
                        return

    def poll(self, now: float) -> None:
        """At monotonic `now`: unload some of those that are due, the first to end first."""
        core, begun = self._core, time.monotonic()
        older = core.store.older_ids() if core.reading.whole.is_set() else []
        self._unfit = {run_id: self._unfit[run_id] for run_id in older if run_id in self._unfit}
        for run_id in reversed(older):
            if self._is_due(run_id, now):
                self._unload_ended(run_id)
                if time.monotonic() - begun > UNLOAD_S:
                    return

    def _is_due(self, run_id: str, now: float) -> bool:
        core = self._core
        held = run_id in core.live or run_id in core.unwritten or task_about(run_id) is not None
        used = max(times.get(run_id, float("-inf")) for times in (core.fetched, core.launched))
        return not held and now - used > QUIET_S and self._unfit.get(run_id) != core.store.run(run_id).journal.seq

    def _unload_ended(self, run_id: str) -> None:
        core = self._core
        found = run_on_disk.read_short_summary(core.run_dir(run_id))
        match found.events if found is not None else ():
            case [facts.RunCreated() as made, facts.AttemptEnded() as over] if _can_wait(core, run_id, made):
                _unload(core, run_id, made, over)
                core.launched.pop(run_id, None)
                core.counted.pop(run_id, None)
            case _:
                self._unfit[run_id] = core.store.run(run_id).journal.seq


def load_ended(core: Core, found: run_on_disk.RunOnDisk, newest_bytes: int = run_on_disk.SPARKLINE_BYTES) -> None:
    """Know an ended run by its events and the last `newest_bytes` of its metrics."""
    run_on_disk.finish(_loading(core, found, newest_bytes))


def _loading(core: Core, found: run_on_disk.RunOnDisk, newest_bytes: int) -> Iterator[None]:
    run_id = found.dir.id
    if not found.whole:
        found = yield from run_on_disk.reading_run(found.dir)
    if found.unreadable:
        show_damaged(core, found.dir, found.unreadable)
        return
    _, why = yield from _knowing(core, found)
    records = run_on_disk.last_rows(found, newest_bytes)
    if why:
        _show_foreign(core, found, records, why)
        return
    for make in _mending(found):
        _append(core, found, make)
    run_on_disk.show_end(core.store, run_id, records)
    known = core.store.run(run_id)
    if known.journal.peak is not None and known.spec is not None:
        core.machine.peaks.add(known.spec, known.journal.peak, known.journal.ended_t or 0.0)
    _say_missed_step(core, found)
    decide_restart(core, run_id)
    with suppress(DamagedError, OSError):
        ended = read_exit(found.dir.attempt(core.store.run(run_id).journal.attempt).exit)
        if ended is not None:
            flag_unkillable(core, run_id, ended)


def adopting(core: Core, found: run_on_disk.RunOnDisk) -> Iterator[None]:
    """Know a run that has not ended, and watch whoever of it lives; a run that was made but not begun begins now."""
    if found.unreadable:
        show_damaged(core, found.dir, found.unreadable)
        return
    spec, why = yield from _knowing(core, found)
    if why:
        _show_foreign(core, found, run_on_disk.last_rows(found, run_on_disk.SPARKLINE_BYTES), why)
        return
    for make in _mending(found):
        _append(core, found, make)
    _say_missed_step(core, found)
    run = open_live_run(core, found.dir, spec, slice_bytes=run_on_disk.SLICE_BYTES)
    while run.tail.behind:
        yield
        read_news(core, run)
    run.tail.slice_bytes = MOST_BYTES
    if run.judging.unjudged and not run.launcher.poll(run.job).lives:
        # Its end judges the rest at one go, and the rest may be all of it.
        while judge_some(core, run):
            yield
    order = core.seals.check(found.dir, max(1, run.attempt)).order
    if order is None:
        # It was there a moment ago, when the run was taken for ours.
        abandon(core, run, Failed(kind="start", cause="its launch order was lost before it was started"))
        return
    if run.attempt == 0:
        # Nothing is known of the machine yet, nor of what others were promised.
        run.enqueue(order, first_turn(core, run, order))
        return
    run.found_on_disk(order, wants_pause=_wants(found.events, "pause"))
    watch_or_finish(core, run)
    if run.job_status.trains:
        known = run.launcher.secrets(run.job, order)
        core.variables.set_values(run.id, {name: value for name, value in known.items() if name not in order.from_file})
    take_up_freeze(core, run, _wants(found.events, "freeze"))
    react_to_due(core, run)


def _say_missed_step(runs: Runs, found: run_on_disk.RunOnDisk) -> None:
    """Before its rows are judged: had a supervisor lived while the clock was set, it would have said so."""
    journal = runs.store.run(found.dir.id).journal
    attempt, by_s = journal.attempt, missed_step(found.dir, journal)
    if by_s is not None:
        _append(runs, found, partial(facts.ClockStepped, attempt=attempt, by_s=round(by_s, 3)))


def _knowing(core: Core, found: run_on_disk.RunOnDisk) -> Generator[None, None, tuple[Spec | None, str]]:
    """Apply the run's events; what its newest attempt began with (None when that cannot be read), and why it is
    foreign: empty for what is ours.

    The run is known by the spec that came of it since: with what was set while it trained.
    """
    sealed = core.seals.check(found.dir, run_on_disk.newest_attempt(found))
    spec, as_set = run_on_disk.read_specs(found, sealed.specs)
    if sealed.changed:
        found.damage["spec.toml"] = words_of_change(sealed.changed)
        spec = as_set = None
    core.add(found.dir, as_set)
    yield from run_on_disk.applying(core.store, found.dir.id, found.events)
    return spec, sealed.foreign


def _show_foreign(runs: Runs, found: run_on_disk.RunOnDisk, records: list[MetricRecord], why: str) -> None:
    """Know what is not ours: its files are read and nothing more; what is wrong with them is not written there."""
    run_id = found.dir.id
    run_on_disk.show_end(runs.store, run_id, records)
    if found.damage:
        runs.store.apply(run_id, FlagSeen("damaged", raised=True))
    runs.store.apply(run_id, ForeignSeen(why))


def _mending(found: run_on_disk.RunOnDisk) -> Iterator[Make]:
    """The events that are missing: what is damaged and was not said yet, and what a lost journal once said."""
    said = {(event.file, event.detail) for event in found.events if isinstance(event, facts.FileDamaged)}
    for file, detail in found.damage.items():
        if (file, clean(detail)) not in said:
            yield damaged(file, detail)
    if not any(isinstance(event, facts.RunCreated) for event in found.events):
        yield partial(run_on_disk.created_by_name, found.dir)
        attempts = found.dir.attempts()
        if attempts and not any(isinstance(event, facts.AttemptStarting) for event in found.events):
            yield lambda seq, t: facts.AttemptStarting(seq, t, attempts[-1])


def _append(runs: Runs, found: run_on_disk.RunOnDisk, make: Make) -> None:
    journal = RunJournal(found.dir.events, runs.store.run(found.dir.id).journal.seq, runs.reserve)
    runs.store.apply(found.dir.id, journal.append_or_hold(make))
    journal.close()


def _wants(events: list[facts.FleetEvent], verb: facts.Verb) -> bool:
    """Whether `verb` (pause or freeze) was asked of the newest attempt and not taken back."""
    wants = False
    for event in events:
        if isinstance(event, facts.AttemptStarting):
            wants = False
        elif isinstance(event, facts.RunThawed):
            wants = wants and verb != "freeze"
        elif isinstance(event, facts.Asked) and event.verb in (verb, "resume"):
            wants = event.verb == verb
    return wants


RECENT_S = 5.0
"""File systems count the time of a folder in steps of up to two seconds: it may change once more and look the same."""
SLICE_S = 0.015
"""How long taking runs in keeps the loop before others have their turn."""
MOST_ENTRIES = 4096
"""Of one directory that are looked at; larger ones count by those."""


class Arrivals:
    """Looks into the runs root where its own time has changed, at most one look at a time."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._listed_at: int | None = None
        self._growing: dict[str, int] = {}
        self._left: set[str] = set()
        self._missed: set[str] = set()
        self._looking: asyncio.Task[None] | None = None

    def poll(self) -> None:
        """To be called every ten seconds or so; before all runs of the start are known, others cannot be told."""
        if not self._core.reading.whole.is_set():
            return
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="arrivals")
            self._core.duties.follow("search for new run directories", self._looking)

    async def _look(self) -> None:
        try:
            changed_at = (await asyncio.to_thread(self._core.root.stat)).st_mtime_ns
        except FileNotFoundError:
            return  # the screen says that the runs root is gone
        if changed_at == self._listed_at and not self._growing and not self._missed:
            return
        listed = await asyncio.to_thread(lambda: list(run_dirs(self._core.root)))
        self._forget_gone({run.id for run in listed})
        new = [run for run in listed if run.id not in self._core.store and run.id not in self._left]
        settled = await asyncio.to_thread(self._settled, new)
        fits = await asyncio.to_thread(lambda: {run.id for run in settled if _may_be_shown(self._core.seals, run)})
        for run in settled:
            if run.id not in fits:
                self._left.add(run.id)
                log.warning("%s is a run of ours that has not ended: the next supervisor takes it in", run.id)
        taken = [run for run in settled if run.id in fits]
        if taken:
            await self._take_in(taken)
        recent = abs(time.time() - changed_at / 1e9) < RECENT_S
        self._listed_at = None if recent else changed_at

    def _forget_gone(self, listed: Set[str]) -> None:
        core, live = self._core, {*self._core.live, *self._core.store.live_ids()}
        gone = {it for it in core.store.run_ids() if it not in listed and it not in live and _is_gone(core, it)}
        for run_id in gone & self._missed:
            log.warning("%s is known no more: its directory was removed or moved away", run_id)
            if (journal := core.unwritten.pop(run_id, None)) is not None:
                journal.close()
            core.forget(run_id)
        self._missed = gone - self._missed

    async def _take_in(self, runs: Sequence[RunDir]) -> None:
        rested_at = time.monotonic()
        for _ in taking_in_more(self._core, [run for run in runs if run.id not in self._core.store]):
            if time.monotonic() - rested_at > SLICE_S:
                await asyncio.sleep(0)
                rested_at = time.monotonic()
        log.info("took in %d run directories that were put into the runs root", len(runs))
        self._core.changed.set()

    def _settled(self, new: Sequence[RunDir]) -> list[RunDir]:
        """Those of which nothing has changed since the last look."""
        before, self._growing = self._growing, {run.id: _state_of(run.path) for run in new}
        settled = [run for run in new if self._growing[run.id] == before.get(run.id)]
        for run in settled:
            del self._growing[run.id]
        return settled


def _is_gone(core: Core, run_id: str) -> bool:
    """Whether nothing has the name of its directory, and nothing is being done with it."""
    return task_about(run_id) is None and not os.path.lexists(core.run_dir(run_id).path)


def _may_be_shown(seals: Seals, run: RunDir) -> bool:
    """Whether nothing begins or is watched if the run is taken in; what cannot be read is a damaged row."""
    try:
        found = run_on_disk.read_summary(run)
        return found.ended_t is not None or bool(seals.check(run, run_on_disk.newest_attempt(found)).foreign)
    except Exception:  # noqa: BLE001 - whatever lies in a directory costs this one run
        return True


def _state_of(folder: Path) -> int:
    """The hash of sizes and times of everything in `folder`, as far as `MOST_ENTRIES` go."""
    facts: list[tuple[str, int, int]] = []
    for entry in _entries(folder):
        with suppress(OSError):
            found = entry.stat(follow_symlinks=False)
            facts.append((entry.path, found.st_size, found.st_mtime_ns))
        if len(facts) >= MOST_ENTRIES:
            break
    return hash(tuple(facts))


def _entries(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda it: it.name):
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path)
