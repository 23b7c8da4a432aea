"""Which format a file or folder is, by what it holds and not by its name, and the log in it.

Our own recordings are run directories, a `metrics.jsonl`, and compressed traces with the specs in their first lines.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from mission_tui.errors import MissionError
from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.health import Settings
from mission_tui.fleet.specs.preset import from_tables
from mission_tui.fleet.specs.spec import Spec
from mission_tui.plain_files import open_named
from mission_tui.records.files.tail import read_all
from mission_tui.records.logs.log import LogError, TableRow, TrainingLog, lines_of, settings_in
from mission_tui.records.logs.table import check_steps, delimiter_of, log_interval, read_csv, read_json, updates_of
from mission_tui.records.runs.attempt import read_exit
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.spec_file import read_attempt_spec

KNOWN_FORMATS = (
    "run directories, metrics.jsonl, SB3's progress.csv, progress.json and monitor.csv, TensorBoard event files, and "
    "tables or JSON lines with a column of steps (such as timestep) and one of returns (such as mean_reward)"
)
_NO_LOG = f"is not a training log; known are {KNOWN_FORMATS}"
TABLES = ("progress.csv", "progress.json")
OTHERS_TABLE = "progress.txt"
"""Spinning Up's."""
_SNIFFED_BYTES = 65_536
MOST_TRACE_BYTES = 256 << 20
"""Of a trace that is unpacked; a file of a thousandth of that can say it has more."""
_RECORD = msgspec.json.Decoder(MetricRecord)
_SPEC = b'{"kind":"spec"'
_RECORDS = tuple(b'{"kind":"%s"' % kind for kind in (b"start", b"update", b"checkpoint", b"evaluation", b"set", b"end"))


def read_log(path: Path) -> TrainingLog:
    """The training log at `path`; of a folder, the log in it. Event files are not read here.

    Raises `LogError` naming the file and what is wrong with it.
    """
    try:
        log = _read(path)
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not log.updates:
        raise LogError(f"{path}: has no update yet")
    return log


def log_of_rows(path: Path, rows: Iterable[TableRow], damage: list[str]) -> TrainingLog:
    """The log whose rows `rows` are; `damage` is what was found wrong once they are all read."""
    written = list(rows)
    updates = updates_of(written)
    more = f" ({len(damage) - 1} more lines like it)" if len(damage) > 1 else ""
    return TrainingLog(
        path,
        updates,
        settings_in(updates),
        damage=tuple(f"{it}{more}" for it in damage[:1]),
        log_interval=log_interval(written, updates),
    )


def _read(path: Path) -> TrainingLog:
    if path.is_dir():
        return _read_folder(path)
    if path.exists() and not path.is_file():
        raise LogError(f"{path}: is neither a file nor a folder")  # opening a pipe would wait for whoever writes to it
    with os.fdopen(open_named(path), "rb") as file:
        head = file.read(_SNIFFED_BYTES)
    if head.startswith(b"\x1f\x8b"):
        return read_trace(path)
    text = head.decode("utf-8-sig", errors="replace").lstrip()
    if not text:
        raise LogError(f"{path}: is empty")
    first = text.splitlines()[0]
    if first.startswith("{"):
        if '"kind"' not in first:
            return _table(path, read_json)
        ours = path.name == "metrics.jsonl" and (path.parent / "spec.toml").is_file()
        return read_run(path.parent) if ours else read_metrics(path)
    if delimiter_of(first) is not None:
        return _table(path, read_csv)
    raise LogError(f"{path}: {_NO_LOG}")


def _read_folder(path: Path) -> TrainingLog:
    if (path / "spec.toml").is_file():
        return read_run(path)
    for name in ("metrics.jsonl", *TABLES, OTHERS_TABLE):
        if (path / name).is_file():
            return _read(path / name)
    raise LogError(f"{path}: holds no training log; known are {KNOWN_FORMATS}")


def _table(path: Path, reader: Callable[[Path, list[str]], Iterator[TableRow]]) -> TrainingLog:
    damage: list[str] = []
    rows = list(reader(path, damage))
    if not any(row.cells for row in rows) and reader is read_json:
        raise LogError(f"{path}: {_NO_LOG}")
    check_steps(path, rows)
    return log_of_rows(path, rows, damage)


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
        for line in _unpacked(path):
            if line.startswith(_SPEC):
                head = msgspec.json.decode(line)
                own[head["attempt"]] = from_tables(head["spec"], str(path))
            elif line.startswith(_RECORDS):
                records.append(_RECORD.decode(line))
        specs = {record.attempt: own.get(record.attempt, own[1]) for record in records}
    except LogError:
        raise
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError, KeyError, TypeError, MissionError) as error:
        raise LogError(f"{path}: is not a recorded trace: {error!r:.200}") from None
    if not (own or records):
        raise LogError(f"{path}: is compressed, and no recorded trace; decompress it first, such as with gunzip -k")
    return TrainingLog(path, tuple(records), Settings(), specs)


def _unpacked(path: Path) -> Iterator[bytes]:
    left = MOST_TRACE_BYTES
    with os.fdopen(open_named(path), "rb") as packed, gzip.GzipFile(fileobj=packed) as file:
        for line in lines_of(file, path):
            left -= len(line)
            if left < 0:
                raise LogError(f"{path}: grows to more than {MOST_TRACE_BYTES >> 20} MiB, so it is not read")
            yield line
