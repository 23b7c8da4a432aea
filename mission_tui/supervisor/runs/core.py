"""The fleet as the supervisor holds it: the store, the live runs, the journals, and one sign that something changed.

It keeps state and gives it to the modules that act; it decides nothing itself.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mission_tui import __version__
from mission_tui.errors import UsageError
from mission_tui.fleet.capacity.reference_runs import Peaks
from mission_tui.fleet.events.findings import WHY_CHARACTERS, FailedDuty
from mission_tui.fleet.events.journal import Asked, DutyDoneSeen, DutyFailureSeen, FleetEvent, Verb
from mission_tui.fleet.events.observations import SizeSeen
from mission_tui.fleet.history.run import Fact
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.store import Store
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import HostMeters, OtherProgram, SupervisorInfo
from mission_tui.paths import limits_files
from mission_tui.records.files.storage import Reserve, StorageError
from mission_tui.records.limits_files import LimitsFiles
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.layout import RunDir, supervisor_dir
from mission_tui.records.runs.seal import Seals, words_of_change
from mission_tui.supervisor.gpu.watch import GpuWatch
from mission_tui.supervisor.host.identity import Exits, Process
from mission_tui.supervisor.host.ledger import OtherSupervisors, ledger_folder
from mission_tui.supervisor.host.machine import HostSampler
from mission_tui.supervisor.host.process_files import GpuHolders
from mission_tui.supervisor.launchers import Launcher
from mission_tui.supervisor.launchers.provenance import ProvenanceWatch
from mission_tui.supervisor.runs.clock_steps import ClockSteps
from mission_tui.supervisor.runs.duties import Duties
from mission_tui.supervisor.runs.journal import FleetJournal, Make, RunJournal
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.phase_lanes import Lanes
from mission_tui.supervisor.runs.requester import signed
from mission_tui.supervisor.runs.run_names import RunNames

GPU_METERS = "GPU meters"
"""This duty's failure is in the machine's own note."""
STALE_S = 2.0
FIRST_GPU_S = 1.0
RESERVE_BYTES = 256 << 10
"""Some hundreds of events: enough to write down how every run ended."""


@dataclass(frozen=True, slots=True)
class SizeCount:
    """When (monotonic) the bytes of a run were counted, and whether it lived then."""

    at: float
    live: bool


class Core:
    """One per process. `live` holds every run that has not ended; `launched` when (monotonic) a run was made here.
    `counted` says whose bytes are known.

    `secrets` are the variables of runs started here that are on no disk. `lacking` are the orders of those that wait
    because nobody has the values of some.

    `waiting` are the ended runs of which only name and end are known yet, the last to end first; `fetch` reads the
    whole of one of them, and whoever speaks of a single run calls it first. `others` are programs that belong to no
    run; `survey` looks for them if nobody did of late, and says whether it did.
    `unmeasured` are the live runs of which it is not known yet what they bring.
    `unread` directories are still being read at the start; `whole` is set once none is.
    One request at a time is `adopting` runs.
    `orphaned`: processes of a dead run may be about, and nobody has looked yet.
    """

    def __init__(self, root: Path, launcher: Launcher) -> None:
        self.root = root
        self.launcher = launcher
        self.host = HostSampler(root)
        self.gpu = GpuWatch(self._report_gpu_meters)
        self.lanes = Lanes()
        self.holders = GpuHolders()
        self.other_supervisors = OtherSupervisors(ledger_folder(os.environ))
        self.limits = LimitsFiles(limits_files(os.environ))
        self.peaks = Peaks()
        self.seals = Seals.of(os.environ)
        self.adopting = asyncio.Lock()
        self.provenance = ProvenanceWatch()
        self.reserve = Reserve(supervisor_dir(root) / "reserve", RESERVE_BYTES)
        self.reserve.hold()
        self.exits = Exits()
        self.clock_steps = ClockSteps()
        self.unkillable: dict[str, tuple[int, ...]] = {}
        self.fleet = FleetJournal(supervisor_dir(root) / "events.jsonl")
        self.store = Store(
            str(root),
            SupervisorInfo(pid=os.getpid(), version=__version__, started_t=time.time()),
            self.host.sample("", disk_full=self.reserve.needed),
        )
        self.duties = Duties(self.fleet, self._show_duties)
        self.provenance.failed = self.fail_for
        self.fleet.failed = self._report_fleet_journal
        self.live: dict[str, LiveRun] = {}
        self.names = RunNames(self._live_names)
        self.launched: dict[str, float] = {}
        self.secrets: dict[str, dict[str, str]] = {}
        self.lacking: dict[str, LaunchOrder] = {}
        self.unwritten: dict[str, RunJournal] = {}
        self.counted: dict[str, SizeCount] = {}
        self.waiting: dict[str, None] = {}
        self.fetch: Callable[[str], None] = lambda _: None
        self.unread = 0
        self.whole = asyncio.Event()
        self.whole.set()
        self.others: tuple[OtherProgram, ...] = ()
        self.survey: Callable[[], Awaitable[bool]] = _nothing_new
        self.unmeasured: tuple[str, ...] = ()
        self.orphaned = True
        self._sampled_at = 0.0
        self.changed = asyncio.Event()
        self.leaving: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def run_dir(self, run_id: str) -> RunDir:
        return RunDir(self.root / run_id)

    def name_of(self, run_id: str) -> str:
        """What people call the run; empty for one that is not known."""
        return self.store.run(run_id).journal.name if run_id in self.store.run_ids() else ""

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

    def expect_directories(self, directories: int) -> None:
        """So many run directories are being read; `whole` is set again once they are."""
        self.unread = directories
        self.store.observe_unread(directories)

    def directory_read(self) -> None:
        """One of them is known."""
        self.unread = max(0, self.unread - 1)

    def forget(self, run_id: str) -> None:
        """Know nothing more of a run whose directory was removed."""
        self.store.remove_run(run_id)
        self.lanes.forget(run_id)
        self.waiting.pop(run_id, None)
        self.launched.pop(run_id, None)
        self.secrets.pop(run_id, None)
        self.lacking.pop(run_id, None)
        self.counted.pop(run_id, None)
        self.changed.set()

    def request_exit(self, why: str) -> None:
        """Have this process end in order."""
        if not self.leaving.done():
            self.leaving.set_result(why)

    def apply(self, run_id: str, fact: Fact) -> bool:
        """Take in a fact that everyone should hear of soon; false when it was known."""
        news = self.store.apply(run_id, fact)
        self.lanes.take(run_id, fact)
        if news:
            self.changed.set()
        return news

    def apply_quietly(self, run_id: str, fact: Fact) -> None:
        """Take in a fact that may wait for the next change, such as a heartbeat."""
        self.store.apply(run_id, fact)
        self.lanes.take(run_id, fact)

    def take_journal(self, run: RunDir, last_seq: int) -> RunJournal:
        """The run's journal; the very one that still holds events that a full disk did not take."""
        held = self.unwritten.pop(run.id, None)
        return held if held is not None else RunJournal(run.events, last_seq, self.reserve)

    def record_request(self, run: LiveRun, make: Make) -> FleetEvent:
        """Journal what a person asked for, before it is acknowledged. Raises `StorageError`."""
        event = run.journal.append(lambda seq, t: signed(make(seq, t)))
        self.apply(run.id, event)
        return event

    def record_verb(self, run: LiveRun, verb: Verb) -> FleetEvent:
        """Journal that a person asked for `verb`. Raises `StorageError`."""
        return self.record_request(run, lambda seq, t: Asked(seq, t, verb, run.attempt))

    def record_observed(self, run: LiveRun, make: Make) -> FleetEvent:
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
        duty = f"journal of {run_id}"
        if journal.holding:
            self.duties.fail(duty, journal.why)
        else:
            self.duties.done(duty)

    def _report_fleet_journal(self, why: str) -> None:
        if why:
            self.duties.fail("journal of the fleet", why)
        else:
            self.duties.done("journal of the fleet")

    @contextmanager
    def _journal_of(self, run_id: str) -> Iterator[RunJournal]:
        live = self.live.get(run_id)
        if live is not None:
            yield live.journal
            return
        journal = self.take_journal(self.run_dir(run_id), self.store.run(run_id).journal.seq)
        try:
            yield journal
        finally:
            journal.close()
            if journal.holding:
                self.unwritten[run_id] = journal

    def record_size(self, run_id: str, size_bytes: int) -> None:
        """Take in that the run's files have so many bytes now."""
        if run_id not in self.waiting and run_id in self.store.run_ids():
            self.counted[run_id] = SizeCount(time.monotonic(), run_id in self.live)
            self.apply_quietly(run_id, SizeSeen(size_bytes))

    def sample(self) -> None:
        """Take in the machine's meters of this moment."""
        self._sampled_at = time.monotonic()
        host = self.duties.attempt("CPU and memory meters", self._sampled_host, None)
        if host is not None:
            self.store.observe_machine(host, self.gpu.gpus)

    def _sampled_host(self) -> HostMeters | None:
        note = self.gpu.note
        return self.host.sample(note, self.other_supervisors.note, disk_full=self.reserve.needed, others=self.others)

    def _report_gpu_meters(self, why: str) -> None:
        """The meters stopped because of `why`, or are back."""
        if why:
            self.duties.fail(GPU_METERS, why)
        else:
            self.duties.done(GPU_METERS)

    def _show_duties(self, failed: tuple[FailedDuty, ...]) -> None:
        self.store.observe_duties(tuple(each for each in failed if each.duty != GPU_METERS))
        self.changed.set()

    def fail_for(self, run_id: str, duty: str, why: str, *, number: int = 0) -> None:
        """Journal that `duty` was not done for the run; one that was removed meanwhile has no journal."""
        if run_id not in self.store.run_ids():
            return
        attempt, sentence = self.store.run(run_id).journal.attempt, clean(why, WHY_CHARACTERS)
        self.record_observed_of(run_id, lambda seq, t: DutyFailureSeen(seq, t, attempt, duty, sentence, number))

    def done_for(self, run_id: str, duty: str) -> None:
        """`duty` was done for the run: journaled if it had failed before."""
        if run_id not in self.store.run_ids() or (known := self.store.run(run_id).journal.duties.get(duty)) is None:
            return
        attempt, times = self.store.run(run_id).journal.attempt, known.times
        self.record_observed_of(run_id, lambda seq, t: DutyDoneSeen(seq, t, attempt, duty, times))

    async def measure(self) -> None:
        """Have meters that are fresh, also right after nobody looked; a GPU's first sample is waited for a moment."""
        self.gpu.tick(wanted=True)
        if self.gpu.present() and not self.gpu.gpus:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.gpu.heard.wait(), FIRST_GPU_S)
        if await self.survey() or time.monotonic() - self._sampled_at > STALE_S:
            self.sample()

    def is_live(self, run_id: str, attempt: int) -> bool:
        """Whether `attempt` is the running one of a live run, and more of it lives than what it left behind."""
        run = self.live.get(run_id)
        return run is not None and run.attempt == attempt and not run.outlived

    def is_spared(self, run_id: str, attempt: int) -> bool:
        """Whether nothing of the attempt may be cleaned up: it lives, or is not ours. May be asked from any thread."""
        return self.is_live(run_id, attempt) or bool(self.seals.check(self.run_dir(run_id), attempt).foreign)

    def submit(self, run: RunDir, order: LaunchOrder) -> Process:
        """Hand the written order to a keeper; the returned process is held. Raises `MissionError`, also for an order
        that is not the one that was sealed.
        """
        if why := self.seals.check(run, order.attempt).foreign:
            raise UsageError(f"attempt {order.attempt} of {run.id} is not started: {why}")
        return self.launcher.submit(run, order)

    def check_ours(self, run_id: str, verb: str, *, starts: bool) -> None:
        """Raise `UsageError` for a run that is foreign. Of one that `verb` `starts` something of, the seal is looked at
        anew: order and specs must be as they were when it was launched. What lives and is ours can always be ended.
        """
        self.fetch(run_id)
        journal = self.store.run(run_id).journal
        why = journal.foreign
        if starts and not why:
            sealed = self.seals.check(self.run_dir(run_id), max(1, journal.attempt))
            why = sealed.foreign
            if not why and (changed := words_of_change(sealed.changed)):
                raise UsageError(
                    f"cannot {verb} {journal.name}: {changed}, and nothing is started of what nobody has agreed to; "
                    f"put it back as it was, or `mission-tui adopt {journal.name}` shows what it would run now, and "
                    "takes that"
                )
        if why:
            raise UsageError(
                f"cannot {verb} {journal.name}, which is foreign: {why}; "
                f"`mission-tui adopt {journal.name}` shows what it would run, and takes it for yours"
            )


async def _nothing_new() -> bool:
    return False
