"""Run directories as they are found on disk: the live ones and the damaged ones read, of the ended ones a glimpse.

A journal whose first line made the run and whose last lines ended its attempt needs no reading to be known for ended.
So a runs root with very many old runs is known in the time of one small read each; the whole is read when it is wanted.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from mission_tui.errors import DamagedError, MissionError
from mission_tui.fleet.history.events import (
    AttemptEnded,
    AttemptStarting,
    CompanyChanged,
    DutyFailureSeen,
    FileDamaged,
    FindingChanged,
    FindingMarked,
    FleetEvent,
    HealthActed,
    PayoffJudged,
    RunCreated,
    RunLabelled,
    RunNoted,
    SettingsAsked,
)
from mission_tui.fleet.history.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.specs.live_settings import with_words
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.views.snapshot import SERIES
from mission_tui.records.files.lines import decode_line
from mission_tui.records.files.tail import read_all
from mission_tui.records.runs.layout import RunDir, run_dirs
from mission_tui.records.runs.spec_file import read_spec

__all__ = ["RunOnDisk", "created_by_name", "glimpse", "read_fleet", "read_run", "read_specs", "shown_rows"]

GLIMPSE_BYTES = 64 << 10
"""A journal that is longer is read like one of a live run."""

LAST_LINES = 16
_RENAMED = b'{"kind":"renamed"'
_AFTERWARDS = (
    FindingChanged
    | FindingMarked
    | HealthActed
    | CompanyChanged
    | PayoffJudged
    | DutyFailureSeen
    | FileDamaged
    | RunNoted
    | RunLabelled
)
"""What may follow the end of an attempt and leave the run ended."""


@dataclass(frozen=True, slots=True)
class RunOnDisk:
    """A run directory and what its `events.jsonl` says; of a glimpse only that it was made and that it ended."""

    dir: RunDir
    events: list[FleetEvent]
    damage: dict[str, str]
    whole: bool = True

    @property
    def ended_t(self) -> float | None:
        """When its last attempt was over; None while it is not."""
        ended_t = None
        for event in self.events:
            if isinstance(event, AttemptStarting | AttemptEnded):
                ended_t = event.t if isinstance(event, AttemptEnded) else None
        return ended_t


def read_fleet(root: Path) -> tuple[list[RunOnDisk], list[RunOnDisk]]:
    """Live runs, oldest first, each read; and ended ones, the last to end first, most of them a glimpse."""
    live: list[RunOnDisk] = []
    ended: list[RunOnDisk] = []
    for run_dir in run_dirs(root):
        found = glimpse(run_dir)
        (live if found.ended_t is None else ended).append(found)
    return live, sorted(ended, key=lambda found: found.ended_t or 0.0, reverse=True)


def glimpse(run_dir: RunDir) -> RunOnDisk:
    """The run by two lines of its journal where they show that it ended, else read."""
    return _glimpse(run_dir) or read_run(run_dir)


def read_run(run_dir: RunDir) -> RunOnDisk:
    """The run with every event of its journal, and what of that is damaged."""
    try:
        events, damage = read_all(run_dir.events, FleetEvent)
    except OSError as error:
        events, damage = [], [str(error)]
    return RunOnDisk(run_dir, events, {run_dir.events.name: "; ".join(damage)} if damage else {})


def read_specs(found: RunOnDisk) -> tuple[Spec | None, Spec | None]:
    """What the newest attempt began with, and that with what was set while it trained; None for what cannot be read.

    What is wrong with them is added to the run's damage.
    """
    attempt = max((event.attempt for event in found.events if isinstance(event, AttemptStarting)), default=1)
    own = found.dir.attempt(attempt).spec
    spec = None
    try:
        spec = read_spec(own if own.is_file() else found.dir.spec)
    except (MissionError, OSError) as error:
        found.damage["spec.toml"] = str(error)
    return spec, _as_set(spec, attempt, found)


def shown_rows(records: list[MetricRecord]) -> Iterator[MetricRecord]:
    """What a snapshot shows of an ended run: its newest row, and of the rows before only the series of a sparkline.

    The first line of the file is left out, so that nobody takes this for the whole history.
    """
    updates = [record for record in records if isinstance(record, UpdateDone)]
    for record in records:
        if isinstance(record, UpdateDone) and record is not updates[-1]:
            metrics = {name: record.metrics[name] for name in SERIES if name in record.metrics}
            yield structs.replace(record, metrics=metrics)
        elif record.seq > 1:
            yield record


def created_by_name(run_dir: RunDir, seq: int, _t: float) -> RunCreated:
    """What the lost first line said, as far as the directory's name tells."""
    try:
        made_t = time.mktime(time.strptime(run_dir.id[:15], "%Y%m%d-%H%M%S"))
    except ValueError:
        made_t = 0.0
    return RunCreated(seq, made_t, name=run_dir.id[16:], preset="")


def _glimpse(run_dir: RunDir) -> RunOnDisk | None:
    """The run by two lines of its journal, if they show that it ended; None whenever anything is unusual."""
    raw = _whole_file(f"{run_dir.path}/events.jsonl")
    if not raw.endswith(b"\n") or _RENAMED in raw:
        return None
    lines = raw.split(b"\n")[:-1]
    try:
        made = decode_line(lines[0], FleetEvent)
        for line in lines[: -LAST_LINES - 1 : -1]:
            event = decode_line(line, FleetEvent)
            if isinstance(event, AttemptEnded) and isinstance(made, RunCreated):
                return RunOnDisk(run_dir, [made, event], {}, whole=False)
            if not isinstance(event, _AFTERWARDS):
                return None
    except DamagedError:
        pass
    return None


def _as_set(spec: Spec | None, attempt: int, found: RunOnDisk) -> Spec | None:
    sets = [event for event in found.events if isinstance(event, SettingsAsked) and event.attempt == attempt]
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
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > GLIMPSE_BYTES:
            return b""
        return os.read(descriptor, GLIMPSE_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
