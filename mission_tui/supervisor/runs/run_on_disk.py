"""Run directories as they are found on disk: in which order those of a root are taken in, how much of each is read,
and what one that cannot be read costs. The supervisor and the read-only server take runs in alike.

A journal whose first line made the run and whose last lines ended its attempt needs no reading to be known for ended.
So a runs root with very many old runs is known in the time of one small read each; the whole is read when it is wanted.
Live runs come first, then ended ones, the last to end first: the newest with what a list shows of them, most others by
name and end alone. Runs with long journals come last.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct, structs

from mission_tui.errors import DamagedError, MissionError
from mission_tui.fleet.events import journal
from mission_tui.fleet.events.journal import AttemptEnded, FleetEvent, RunCreated
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.events.outcome import Lost
from mission_tui.fleet.events.processes import FlagSeen
from mission_tui.fleet.history.classify import ExitFacts
from mission_tui.fleet.history.run import Fact, course_rows
from mission_tui.fleet.specs.preset import with_words
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.store import SNAPSHOT_ENDED, Store
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import SERIES
from mission_tui.records.given_files import LARGEST_BYTES
from mission_tui.records.jsonl import Tail, decode_line, read_newest_whole
from mission_tui.records.runs.attempt import ExitRecord, parse_spec, read_attempt_spec
from mission_tui.records.runs.layout import STAMP_CHARACTERS, RunDir, run_dirs

GLIMPSE_BYTES = 64 << 10
"""A journal that is longer is read like one of a live run."""

LAST_LINES = 16
SLICE_BYTES = 1 << 16
"""Read in one step: some milliseconds."""

JOURNAL_BYTES = 32 << 20
"""No journal is longer: a hundred thousand events."""

_WHOSE = (os.geteuid(), 0)
_RENAMED, _TRIED = b'{"kind":"renamed"', b'{"kind":"trial"'
_AFTERWARDS = (
    journal.FindingChanged
    | journal.FindingMarked
    | journal.HealthActed
    | journal.CoRunningChanged
    | journal.GainMeasured
    | journal.DutyFailureSeen
    | journal.DutyDoneSeen
    | journal.FileDamaged
    | journal.RunNoted
    | journal.RunLabelled
)
"""What may follow the end of an attempt and leave the run ended."""
SPARKLINE_BYTES = 64 << 10
"""Of an ended run's metrics: enough for the points that a snapshot shows."""
LAST_BYTES = 8 << 10
"""Of an ended run that no snapshot shows: enough for its last row."""


class RunOnDisk(Struct, frozen=True):
    """A run directory and what its `events.jsonl` says; of a short summary only that it was made and that it ended.

    `unreadable` says why nothing can be known of it: such a run is shown, and nothing is done with it.
    """

    dir: RunDir
    events: list[journal.FleetEvent]
    damage: dict[str, str]
    whole: bool = True
    unreadable: str = ""

    @property
    def ended_t(self) -> float | None:
        """When its last attempt was over; None while it is not."""
        over = journal.final_end(self.events)
        return None if over is None else over.over_t


def read_fleet(root: Path) -> tuple[list[RunOnDisk], list[RunOnDisk]]:
    """Live runs, oldest first, each read; and ended ones, the last to end first, most of them as a short summary."""
    return parted(map(read_summary, run_dirs(root)))


def parted(runs: Iterable[RunOnDisk]) -> tuple[list[RunOnDisk], list[RunOnDisk]]:
    """The live ones of `runs`, and the ended ones, the last to end first."""
    live: list[RunOnDisk] = []
    ended: list[RunOnDisk] = []
    for found in runs:
        (live if found.ended_t is None else ended).append(found)
    return live, sorted(ended, key=lambda found: found.ended_t or 0.0, reverse=True)


def read_summary(run_dir: RunDir) -> RunOnDisk:
    """The run by two lines of its journal where they show that it ended, else read."""
    return read_short_summary(run_dir) or read_run(run_dir)


def read_run(run_dir: RunDir) -> RunOnDisk:
    """The run with every event of its journal, and what of that is damaged."""
    reading = reading_run(run_dir)
    while True:
        try:
            next(reading)
        except StopIteration as over:
            found: RunOnDisk = over.value
            return found


def reading_run(run_dir: RunDir) -> Generator[None, None, RunOnDisk]:
    """As `read_run`, in steps of a few milliseconds each."""
    tail = Tail(run_dir.events, journal.FleetEvent, most=JOURNAL_BYTES)
    tail.slice_bytes = SLICE_BYTES
    events: list[journal.FleetEvent] = []
    try:
        events += tail.read()
        while tail.behind:
            yield
            events += tail.read()
    except Exception as error:  # noqa: BLE001 - whatever a file can cause costs this one run
        why = why_unreadable(error)
        return RunOnDisk(run_dir, [], {run_dir.events.name: why}, unreadable=f"{run_dir.events.name}: {why}")
    return RunOnDisk(run_dir, events, {run_dir.events.name: "; ".join(tail.damage)} if tail.damage else {})


def why_unreadable(error: Exception) -> str:
    """What went wrong with a run directory, in words."""
    if isinstance(error, OSError) and error.strerror:
        return str(error.strerror)
    return clean(f"{type(error).__name__}: {error}" if not isinstance(error, MissionError) else str(error), 300)


def unreadable_facts(run_dir: RunDir, why: str) -> tuple[Fact, ...]:
    """What is known of a run of which nothing can be known: that it is damaged, and why, as one that is lost."""
    made = created_by_name(run_dir, 1, 0.0)
    lost = Lost(f"it cannot be read from here: {clean(why, 300)}")
    ended = journal.AttemptEnded(3, made.t, 1, lost)
    return made, journal.AttemptStarting(2, made.t, 1), ended, FlagSeen("damaged", raised=True)


def journal_bytes(run_dir: RunDir) -> int:
    """How long the run's journal is; 0 where there is none."""
    with suppress(OSError):
        return run_dir.events.lstat().st_size
    return 0


def newest_attempt(found: RunOnDisk) -> int:
    """The attempt that counts: the last one that its journal tells of, and the first one before there is any."""
    return next((event.attempt for event in reversed(found.events) if isinstance(event, journal.AttemptStarting)), 1)


def read_specs(found: RunOnDisk, sealed: Mapping[str, bytes] | None = None) -> tuple[Spec | None, Spec | None]:
    """What the newest attempt began with, and that with what was set while it trained; None for what cannot be read.
    A run that never began is going to begin with what was set while it waited.

    `sealed` is what was read of them when the run's seal was checked. What is wrong with them is added to the run's
    damage.
    """
    attempt = max((event.attempt for event in found.events if isinstance(event, journal.AttemptStarting)), default=0)
    begun, attempt, spec = attempt > 0, max(1, attempt), None
    try:
        spec = _sealed_spec(found.dir, attempt, sealed or {}) or read_attempt_spec(found.dir, attempt)
    except (MissionError, OSError) as error:
        found.damage["spec.toml"] = str(error)
    now = _as_set(spec, attempt, found)
    return spec if begun else now, now


def _sealed_spec(run: RunDir, attempt: int, sealed: Mapping[str, bytes]) -> Spec | None:
    """The attempt's own spec, else the run's, as it was read; None for what has to be read to say what is wrong."""
    own = f"attempts/{attempt}/spec.toml"
    name = own if own in sealed else "spec.toml"
    raw = sealed.get(name, b"")
    return parse_spec(raw, run.path / name) if 0 < len(raw) <= LARGEST_BYTES else None


def last_rows(found: RunOnDisk, newest_bytes: int) -> list[MetricRecord]:
    """The records in the last `newest_bytes` of the run's metrics; what is wrong with them is added to its damage,
    unless its journal says so of that file already.
    """
    name = found.dir.metrics.name
    try:
        records, whole = read_newest_whole(found.dir.metrics, MetricRecord, newest_bytes)
    except OSError as error:
        found.damage[name] = str(error)
        return []
    if not whole and not any(isinstance(event, journal.FileDamaged) and event.file == name for event in found.events):
        found.damage[name] = "lines of it are damaged and passed over"
    return records


def show_end(store: Store, run_id: str, newest: list[MetricRecord]) -> None:
    """Have `store` know an ended run by the `newest` of its metrics. Where those are all of them, it also knows the
    return from the first update on."""
    store.apply_all(run_id, shown_rows(newest))
    if newest and newest[0].seq == 1:
        store.scan_whole(run_id, course_rows(newest))


def shown_rows(records: list[MetricRecord]) -> Iterator[MetricRecord]:
    """What a snapshot shows of an ended run: its newest row, and of the rows before only the series of a sparkline.

    The first line of the file is left out, so that this is not taken for the whole history.
    """
    updates = [record for record in records if isinstance(record, UpdateDone)]
    for record in records:
        if isinstance(record, UpdateDone) and record is not updates[-1]:
            metrics = {name: record.metrics[name] for name in SERIES if name in record.metrics}
            yield structs.replace(record, metrics=metrics)
        elif record.seq > 1:
            yield record


def created_by_name(run_dir: RunDir, seq: int, _t: float) -> journal.RunCreated:
    """What the lost first line said, as far as the directory's name tells."""
    try:
        made_t = time.mktime(time.strptime(run_dir.id[:15], "%Y%m%d-%H%M%S"))
    except ValueError:
        made_t = 0.0
    return journal.RunCreated(seq, made_t, name=run_dir.id[STAMP_CHARACTERS:], preset="")


def read_short_summary(run_dir: RunDir) -> RunOnDisk | None:
    """The run by two lines of its journal, if they show that it ended; None whenever anything is unusual, and then
    nothing but a short file was read.
    """
    raw = _whole_file(f"{run_dir.path}/events.jsonl")
    if len(raw) < len(_RENAMED):
        return None
    # A trial of it may wait for its verdict, which only the whole journal tells.
    if not raw.endswith(b"\n") or _RENAMED in raw or _TRIED in raw:
        return None
    lines = raw.split(b"\n")[:-1]
    try:
        made = decode_line(lines[0], journal.FleetEvent)
        for line in lines[: -LAST_LINES - 1 : -1]:
            event = decode_line(line, journal.FleetEvent)
            if isinstance(event, journal.AttemptEnded) and isinstance(made, journal.RunCreated):
                return RunOnDisk(run_dir, [made, event], {}, whole=False)
            if not isinstance(event, _AFTERWARDS):
                return None
    except DamagedError:
        pass
    return None


def _as_set(spec: Spec | None, attempt: int, found: RunOnDisk) -> Spec | None:
    # Those of number 0 came while it waited; the first attempt's own spec has them already.
    numbers = (0, 1) if attempt == 1 else (attempt,)
    sets = [event for event in found.events if isinstance(event, journal.SettingsAsked) and event.attempt in numbers]
    if spec is None:
        return None
    try:
        return with_words(spec, [event.assignments for event in sets])
    except MissionError as error:
        found.damage["events.jsonl"] = f"what was set while it trained does not fit its spec: {error}"
        return spec


def _whole_file(path: str) -> bytes:
    """The bytes of a short plain file; nothing of any other."""
    try:
        # Not by way of `open_plain`: ten thousand runs are looked at so at a start, just after they were listed.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > GLIMPSE_BYTES or facts.st_uid not in _WHOSE:
            return b""
        return os.read(descriptor, GLIMPSE_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


OUTPUT_CHARACTERS = 4096
"""As a keeper writes down at most. In a run that was adopted somebody else may have written more, to be searched."""


def exit_facts(ended: ExitRecord | None, disk_full: str = "") -> ExitFacts | None:
    """The record in the words of the rules that name a cause; `disk_full` as `ExitFacts` has it."""
    if ended is None:
        return None
    return ExitFacts(
        code=ended.code,
        signal=ended.signal,
        asked=ended.asked,
        escalated=ended.escalated,
        oom_killed=ended.oom_killed,
        start_error=ended.start_error,
        last_output=ended.last_output[-OUTPUT_CHARACTERS:],
        disk_full=disk_full,
        swept=len(ended.swept),
    )


SHORT_BYTES = 1 << 20
"""Of a journal that is read with the others; longer ones come last."""

MANY_EVENTS = 500
"""Taken in at one go: some milliseconds."""


class Intake(Protocol):
    """Keeps what is read. `waiting` are the ended runs of which only name and end are known."""

    @property
    def store(self) -> Store: ...
    @property
    def waiting(self) -> dict[str, None]: ...
    @property
    def most_s(self) -> float:
        """How long one run may be read before it is given up."""

    def adopting(self, found: RunOnDisk) -> Iterator[None]:
        """Take in a run that has not ended."""

    def loading(self, found: RunOnDisk, newest_bytes: int) -> Iterator[None]:
        """Take in an ended run by its events and the last `newest_bytes` of its metrics."""

    def show_damaged(self, run: RunDir, why: str, error: Exception | None = None) -> None:
        """Keep of a run only that it cannot be read, and why."""

    def directory_read(self) -> None:
        """One more of the directories is known."""


def taking_in(intake: Intake, runs: Sequence[RunDir]) -> Iterator[None]:
    """Take in `runs`, in steps of some milliseconds each."""
    summaries: list[RunOnDisk] = []
    long: list[RunDir] = []
    for run in runs:
        found = read_short_summary(run)
        if found is None and journal_bytes(run) > SHORT_BYTES:
            long.append(run)
        else:
            summaries.append(found if found is not None else (yield from reading_run(run)))
        yield
    live, ended = parted(summaries)
    for found in live:
        yield from _guarded(intake, found.dir, intake.adopting(found))
    for place, found in enumerate(ended):
        if place < SNAPSHOT_ENDED or found.whole:
            newest_bytes = SPARKLINE_BYTES if place < SNAPSHOT_ENDED else LAST_BYTES
            yield from _guarded(intake, found.dir, intake.loading(found, newest_bytes))
            continue
        made, over = found.events
        if isinstance(made, RunCreated) and isinstance(over, AttemptEnded):
            intake.store.add_ended(found.dir.id, str(found.dir.path), made, over)
            intake.waiting[found.dir.id] = None
        intake.directory_read()
        yield
    for run in sorted(long, key=journal_bytes):
        yield from taking_one(intake, run)


def taking_one(intake: Intake, run: RunDir) -> Iterator[None]:
    """Take in one run, whatever its state."""
    yield from _guarded(intake, run, _reading_and_taking(intake, run))


def _reading_and_taking(intake: Intake, run: RunDir) -> Iterator[None]:
    found = yield from reading_run(run)
    yield from intake.adopting(found) if found.ended_t is None else intake.loading(found, SPARKLINE_BYTES)


def _guarded(intake: Intake, run: RunDir, work: Iterator[None]) -> Iterator[None]:
    """`work` on one run, step by step; whatever it raises, and whatever has no end, makes that run a damaged row."""
    spent_s = 0.0
    try:
        with intake.store.half_read(run.id):
            while True:
                begun = time.monotonic()
                try:
                    next(work)
                except StopIteration:
                    break
                spent_s += time.monotonic() - begun
                if spent_s > intake.most_s:
                    intake.show_damaged(run, f"reading it took more than {intake.most_s:g} s")
                    break
                yield
    except Exception as error:  # noqa: BLE001 - whatever lies in a directory costs this one run
        intake.show_damaged(run, why_unreadable(error), error)
    intake.directory_read()
    yield


def applying(store: Store, run_id: str, events: Sequence[FleetEvent]) -> Iterator[None]:
    """Apply the events of a run, some at a time."""
    for start in range(0, len(events), MANY_EVENTS):
        store.apply_all(run_id, events[start : start + MANY_EVENTS])
        if start:
            yield


def finish(work: Iterator[None]) -> None:
    """Do all steps at once."""
    for _ in work:
        pass
