"""The runs as the supervisor holds them: the store, the live runs, their journals, and one sign that something changed.

What is journaled is in the store in the same step. It keeps state for the modules that act; it decides nothing itself.

`Lanes` are the phases of every run of the last day, each from the facts that the fleet takes in anyway. A lost link
begins a gap when the supervisor notices it; every other time is the one that the fact names.

Views of ended runs that are not loaded are kept with what their files were when they were read. To read one takes some
milliseconds, and a page of a list asks for hundreds. A view is given again only while every file that it came of, and
every folder on the way, is the one that it was.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from mission_tui import __version__
from mission_tui.errors import UsageError
from mission_tui.fleet.events import journal as events
from mission_tui.fleet.events.findings import WHY_CHARACTERS, FailedDuty
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.events.processes import LinkSeen, PhaseSeen, SizeSeen
from mission_tui.fleet.history.run import Fact
from mission_tui.fleet.launch_plan import check_name
from mission_tui.fleet.phases import PhaseHistory
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.store import Store
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import HostMeters, RunView, SupervisorInfo
from mission_tui.records.atomic import Reserve, StorageError
from mission_tui.records.runs.layout import RunDir, supervisor_dir
from mission_tui.supervisor.runs.journal import FleetJournal, Make, RunJournal, signed
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.machine_state import GPU_METERS, Duties

DAY_S = 86_400.0
MOST_OVER = 64
"""Ended runs whose phases stay in memory; those that ended last."""

RESERVE_BYTES = 256 << 10
"""Some hundreds of events: enough to write down how every run ended."""


class Lanes:
    """`histories` by the run's id, in the order in which they began to be watched here."""

    def __init__(self) -> None:
        self.histories: dict[str, PhaseHistory] = {}

    def take(self, run_id: str, fact: Fact) -> None:
        """Take in one fact of a run; most say nothing of phases."""
        match fact:
            case PhaseSeen(phase=None, t=t) if run_id in self.histories:
                self.histories[run_id].link_lost(t)
            case PhaseSeen(phase=phase, t=t) if phase is not None:
                self._of(run_id).entered(phase, t)
            case UpdateDone(t=t, rollout_s=rollout_s, update_s=update_s):
                self._of(run_id).trained(t, rollout_s, update_s)
            case LinkSeen(connected=False) if run_id in self.histories:
                self.histories[run_id].link_lost(time.time())
            case events.RunFrozen(t=t) if run_id in self.histories:
                self.histories[run_id].stopped(t)
            case events.RunThawed(t=t) if run_id in self.histories:
                self.histories[run_id].continued(t)
            case events.ClockStepped(t=t, by_s=by_s) if run_id in self.histories:
                if by_s > 0.0:
                    self.histories[run_id].stopped(t - by_s)
                    self.histories[run_id].continued(t)
                else:  # what is known of now comes after all that it keeps, and it would take none of that
                    self.histories[run_id] = PhaseHistory()
            case events.AttemptEnded(t=t) if run_id in self.histories:
                self.histories[run_id].ended(t)
                self._tidy(time.time())

    def load(self, run_id: str, records: Iterable[MetricRecord]) -> None:
        """Take in the rows of a run's whole file, as far as they are of the last day and news."""
        since = time.time() - DAY_S
        for record in records:
            if record.t > since:
                self.take(run_id, record)

    def forget(self, run_id: str) -> None:
        """Know nothing more of a run that was removed."""
        self.histories.pop(run_id, None)

    def _of(self, run_id: str) -> PhaseHistory:
        history = self.histories.get(run_id)
        if history is None:
            history = self.histories[run_id] = PhaseHistory()
        return history

    def _tidy(self, now: float) -> None:
        """Let go of runs that ended a day ago, and of the oldest where too many ended since."""
        over = sorted((history.until, run_id) for run_id, history in self.histories.items() if history.until <= now)
        keep = {run_id for until, run_id in over[-MOST_OVER:] if until > now - DAY_S}
        for _, run_id in over:
            if run_id not in keep:
                del self.histories[run_id]


class SizeCount(Struct, frozen=True):
    """When (monotonic) the bytes of a run were counted, and whether it lived then."""

    at: float
    live: bool


def hold_reserve(root: Path) -> Reserve:
    """The bytes that are given up for journals when the disk of the runs root is full."""
    reserve = Reserve(supervisor_dir(root) / "reserve", RESERVE_BYTES)
    reserve.hold()
    return reserve


class Runs:
    """One per process. `live` holds every run that has not ended; `launched` when (monotonic) a run was made here.
    `counted` says whose bytes are known. `unwritten` are the journals of ended runs that wait for the disk.

    `waiting` are the ended runs of which only name and end are known, the last to end first; `fetch` reads the whole of
    one of them, and has to be called before a single run is used. `fetched` says when (monotonic) that was.
    """

    def __init__(self, root: Path, reserve: Reserve, meters: HostMeters) -> None:
        self.root = root
        self.reserve = reserve
        self.fleet = FleetJournal(supervisor_dir(root) / "events.jsonl")
        info = SupervisorInfo(pid=os.getpid(), version=__version__, started_t=time.time())
        self.store = Store(str(root), info, meters)
        self.duties = Duties(self.fleet, self._show_duties)
        self.fleet.failed = partial(self.duties.report, "journal of the fleet")
        self.lanes = Lanes()
        self.live: dict[str, LiveRun] = {}
        self.names = RunNames(self._live_names)
        self.launched: dict[str, float] = {}
        self.unwritten: dict[str, RunJournal] = {}
        self.counted: dict[str, SizeCount] = {}
        self.waiting: dict[str, None] = {}
        self.unloaded_views = UnloadedViews()
        self.fetch: Callable[[str], None] = lambda _: None
        self.fetched: dict[str, float] = {}
        self.changed = asyncio.Event()

    def run_dir(self, run_id: str) -> RunDir:
        return RunDir(self.root / run_id)

    def name_of(self, run_id: str) -> str:
        """What people call the run; empty for one that is not known."""
        return self.store.run(run_id).journal.name if run_id in self.store else ""

    def _live_names(self) -> dict[str, str]:
        return {run_id: self.store.run(run_id).journal.name for run_id in {*self.live, *self.store.live_ids()}}

    def check_room(self) -> None:
        """Raise `StorageError` while the disk of the runs root is full: what lives goes on, nothing new is started."""
        self.reserve.hold()
        if self.reserve.needed:
            sentence = f"the disk of {self.root} is full: nothing new is started; free some space there first"
            raise StorageError(sentence, errno.ENOSPC)

    def add(self, run: RunDir, spec: Spec | None) -> None:
        """Know a run directory; its facts follow."""
        self.store.add_run(run.id, str(run.path), spec)
        self.changed.set()

    def forget(self, run_id: str) -> None:
        """Know nothing more of a run whose directory was removed."""
        self.store.remove_run(run_id)
        self.lanes.forget(run_id)
        self.waiting.pop(run_id, None)
        self.fetched.pop(run_id, None)
        self.launched.pop(run_id, None)
        self.counted.pop(run_id, None)
        self.changed.set()

    def apply(self, run_id: str, fact: Fact) -> bool:
        """Take in a fact that everyone should hear of soon; false when it was known."""
        if run_id in self.waiting:
            self.fetch(run_id)
        news = self.store.apply(run_id, fact)
        self.lanes.take(run_id, fact)
        if news:
            self.changed.set()
        return news

    def apply_quietly(self, run_id: str, fact: Fact) -> None:
        """Take in a fact that may wait for the next change, such as a heartbeat."""
        if run_id in self.waiting:
            self.fetch(run_id)
        self.store.apply(run_id, fact)
        self.lanes.take(run_id, fact)

    def take_journal(self, run: RunDir, last_seq: int) -> RunJournal:
        """The run's journal; the very one that still holds events that a full disk did not take."""
        held = self.unwritten.pop(run.id, None)
        return held if held is not None else RunJournal(run.events, last_seq, self.reserve)

    def record_request(self, run: LiveRun, make: Make) -> events.FleetEvent:
        """Journal what a person asked for, before it is acknowledged. Raises `StorageError`."""
        event = run.journal.append(lambda seq, t: signed(make(seq, t)))
        self.apply(run.id, event)
        return event

    def record_verb(self, run: LiveRun, verb: events.Verb) -> events.FleetEvent:
        """Journal that a person asked for `verb`. Raises `StorageError`."""
        return self.record_request(run, lambda seq, t: events.Asked(seq, t, verb, run.attempt))

    def record_observed(self, run: LiveRun, make: Make) -> events.FleetEvent:
        """Journal what the supervisor saw; a full disk delays the writing, not the seeing."""
        event = run.journal.append_or_hold(make)
        self.report_journal(run.id, run.journal)
        self.apply(run.id, event)
        return event

    def record_request_of(self, run_id: str, make: Make) -> None:
        """As `record_request`, for a run that may have ended. Raises `StorageError`."""
        with self._journal_of(run_id) as journal:
            self.apply(run_id, journal.append(lambda seq, t: signed(make(seq, t))))

    def record_observed_of(self, run_id: str, make: Make) -> None:
        """As `record_observed`, for a run that may have ended."""
        with self._journal_of(run_id) as journal:
            self.apply(run_id, journal.append_or_hold(make))
            self.report_journal(run_id, journal)

    def report_journal(self, run_id: str, journal: RunJournal) -> None:
        """Take in whether events of the run wait for the disk."""
        self.duties.report(f"journal of {run_id}", journal.why if journal.holding else "")

    def retry_journals(self) -> None:
        """Write the events of ended runs that wait for the disk, as far as it takes them."""
        for run_id, journal in list(self.unwritten.items()):
            try:
                journal.retry()
            except StorageError:
                continue
            journal.close()
            self.report_journal(run_id, journal)
            del self.unwritten[run_id]

    @contextmanager
    def _journal_of(self, run_id: str) -> Iterator[RunJournal]:
        live = self.live.get(run_id)
        if live is not None:
            yield live.journal
            return
        self.fetch(run_id)  # the number of its last event is known only then
        journal = self.take_journal(self.run_dir(run_id), self.store.run(run_id).journal.seq)
        try:
            yield journal
        finally:
            journal.close()
            if journal.holding:
                self.unwritten[run_id] = journal

    def record_size(self, run_id: str, size_bytes: int) -> None:
        """Take in that the run's files have so many bytes now."""
        if run_id not in self.waiting and run_id in self.store:
            self.counted[run_id] = SizeCount(time.monotonic(), run_id in self.live)
            self.apply_quietly(run_id, SizeSeen(size_bytes))

    def _show_duties(self, failed: tuple[FailedDuty, ...]) -> None:
        self.store.observe_duties(tuple(each for each in failed if each.duty != GPU_METERS))
        self.changed.set()

    def fail_for(self, run_id: str, duty: str, why: str, *, number: int = 0) -> None:
        """Journal that `duty` was not done for the run; one that was removed meanwhile has no journal."""
        if run_id not in self.store:
            return
        self.fetch(run_id)
        attempt, sentence = self.store.run(run_id).journal.attempt, clean(why, WHY_CHARACTERS)
        self.record_observed_of(run_id, lambda seq, t: events.DutyFailureSeen(seq, t, attempt, duty, sentence, number))

    def done_for(self, run_id: str, duty: str) -> None:
        """`duty` was done for the run: journaled if it had failed before."""
        if run_id not in self.store:
            return
        self.fetch(run_id)
        if (known := self.store.run(run_id).journal.duties.get(duty)) is None:
            return
        attempt, times = self.store.run(run_id).journal.attempt, known.times
        self.record_observed_of(run_id, lambda seq, t: events.DutyDoneSeen(seq, t, attempt, duty, times))

    def is_live(self, run_id: str, attempt: int) -> bool:
        """Whether `attempt` is the running one of a live run, and more of it lives than what it left behind."""
        run = self.live.get(run_id)
        return run is not None and run.attempt == attempt and not run.outlived


class RunNames:
    """One name means one live run, also while runs are being made or resumed.

    Requests are answered at the same time. One that has to wait between the check of a name and the moment its run is
    live holds the name meanwhile.

    `live` gives the names of the runs that have not ended, by id; those that wait for a restart are among them."""

    def __init__(self, live: Callable[[], Mapping[str, str]]) -> None:
        self._live = live
        self._held: dict[str, str] = {}

    def taken_by(self, name: str, run_id: str = "") -> str | None:
        """Which other run than `run_id` has the name now, in words; None where none has."""
        other = next((it for it, its_name in self._live().items() if its_name == name and it != run_id), None)
        if other is not None:
            return f"a live run ({other})"
        return None if self._held.get(name, run_id) == run_id else "a run that is being started"

    def check(self, name: str, run_id: str = "") -> None:
        """Raise `UsageError` for what is no name, and for one that another run than `run_id` has."""
        check_name(name)
        if holder := self.taken_by(name, run_id):
            raise UsageError(f"the name '{name}' is taken by {holder}; choose another, or stop that one first")

    @contextmanager
    def held(self, name: str, run_id: str) -> Iterator[None]:
        """While this lasts only `run_id`, which may not be made yet, has the name. Raises `UsageError` as `check`."""
        self.check(name, run_id)
        self._held[name] = run_id
        try:
            yield
        finally:
            del self._held[name]


MOST_UNLOADED = 2000
"""Some 2 kB each."""

Stamp = int
"""The hash of what nine files and folders are: of two thousand runs those facts would take megabytes."""


class UnloadedViews:
    """At most `MOST_UNLOADED` views; of more, those that nobody asked for the longest are let go."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, Stamp, bytes]] = {}
        self._decoder = msgspec.msgpack.Decoder(RunView)

    @property
    def full(self) -> bool:
        """Whether another one takes the place of one that is kept."""
        return len(self._kept) >= MOST_UNLOADED

    def get(self, run: RunDir) -> RunView | None:
        """The view of the run; None where none is kept, or anything of it was changed since."""
        kept = self._kept.pop(run.id, None)
        if kept is None or stamp_of(run, kept[0]) != kept[1]:
            return None
        self._kept[run.id] = kept
        return self._decoder.decode(kept[2])

    def keep(self, run: RunDir, view: RunView, stamp: Stamp) -> None:
        """Keep the view of a run whose files had this `stamp` before they were read."""
        self._kept.pop(run.id, None)
        if self.full:
            del self._kept[next(iter(self._kept))]
        # Not as JSON, which has no NaN.
        self._kept[run.id] = view.attempt, stamp, msgspec.msgpack.encode(view)


def stamp_of(run: RunDir, attempt: int) -> Stamp:
    """What tells whether a view of the run, whose newest attempt is `attempt`, is still true."""
    path = str(run.path)
    inner = f"{path}/attempts/{attempt}"
    names = (f"{inner}/launch.json", f"{inner}/spec.toml", f"{inner}/exit.json")
    files = (f"{path}/events.jsonl", f"{path}/metrics.jsonl", f"{path}/spec.toml", *names)
    return hash(tuple(map(_facts, (path, f"{path}/attempts", inner, *files))))


def _facts(path: str) -> tuple[int, ...]:
    """Nobody sets the time of a change (`ctime`), and it moves with contents, names, rights and owner alike."""
    try:
        facts = os.lstat(path)
    except OSError:
        return ()
    return facts.st_ino, facts.st_dev, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
