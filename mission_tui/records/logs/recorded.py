"""Our own recordings: a run directory, a `metrics.jsonl`, or a compressed trace with the specs in its first lines."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import msgspec

from mission_tui.errors import MissionError
from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.health import Settings
from mission_tui.fleet.specs.preset import from_tables
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.files.tail import read_all
from mission_tui.records.logs.log import LogError, TrainingLog
from mission_tui.records.logs.settings import settings_in
from mission_tui.records.runs.attempt import read_exit
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.spec_file import read_attempt_spec

__all__ = ["read_metrics", "read_run", "read_trace"]

_RECORD = msgspec.json.Decoder(MetricRecord)
_SPEC = b'{"kind":"spec"'
_RECORDS = tuple(b'{"kind":"%s"' % kind for kind in (b"start", b"update", b"checkpoint", b"evaluation", b"set", b"end"))


def read_run(path: Path) -> TrainingLog:
    """The run whose directory is `path`. Raises `LogError`, also for a spec or exit record that cannot be read."""
    run = RunDir(path)
    records, damage = read_all(run.metrics, MetricRecord)
    events, more = read_all(run.events, FleetEvent)
    attempts = sorted({record.attempt for record in records})
    try:
        specs = {number: read_attempt_spec(run, number) for number in attempts}
        exits = {number: read_exit(run.attempt(number).exit) for number in attempts}
    except MissionError as error:
        raise LogError(str(error)) from None
    died = {number: record.ended_t for number, record in exits.items() if record is not None}
    return TrainingLog(path, tuple(records), Settings(), specs, tuple(events), died, (*damage, *more))


def read_metrics(path: Path) -> TrainingLog:
    """A `metrics.jsonl` away from its run: nothing is known of the settings but what its rows say."""
    records, damage = read_all(path, MetricRecord)
    updates = [record for record in records if isinstance(record, UpdateDone)]
    return TrainingLog(path, tuple(records), settings_in(updates), damage=tuple(damage))


def read_trace(path: Path) -> TrainingLog:
    """A `.jsonl.gz` trace: `spec` lines by attempt, then records without checksums; other lines are about how it was
    made. Raises `LogError`.
    """
    own: dict[int, Spec] = {}
    records: list[MetricRecord] = []
    try:
        with gzip.open(path, "rb") as lines:
            for line in lines:
                if line.startswith(_SPEC):
                    head = msgspec.json.decode(line)
                    own[head["attempt"]] = from_tables(head["spec"], str(path))
                elif line.startswith(_RECORDS):
                    records.append(_RECORD.decode(line))
        specs = {record.attempt: own.get(record.attempt, own[1]) for record in records}
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError, KeyError, TypeError, MissionError) as error:
        raise LogError(f"{path}: is no recorded trace: {error!r:.200}") from None
    return TrainingLog(path, tuple(records), Settings(), specs)
