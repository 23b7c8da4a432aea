"""Whichever log a path means, and all logs below a folder. Which format a file or folder is, is told by what it holds
and not by its name.

Our own recordings are run directories, a `metrics.jsonl`, and compressed traces with the specs in their first lines. A
folder that is one run (a run directory of ours, a table or event files in it, monitors of its workers) is one log.
Every other file that could be one is tried, and what it is instead is said. Links to folders are not followed, and
folders whose name begins with a dot, such as the trash of a runs root, are passed over.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import msgspec
from msgspec.structs import replace

from mission_tui.errors import MissionError
from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.health import Settings
from mission_tui.fleet.specs.preset import from_tables
from mission_tui.fleet.specs.spec import Spec
from mission_tui.plain_files import open_named
from mission_tui.records.jsonl import read_all
from mission_tui.records.logs.event_files import event_files, read_events
from mission_tui.records.logs.log import (
    LogError,
    TableRow,
    TrainingLog,
    check_steps,
    delimiter_of,
    lines_of,
    log_of_rows,
    read_csv,
    read_json,
    settings_in,
)
from mission_tui.records.logs.monitors import monitor_files, read_episodes
from mission_tui.records.runs.attempt import read_attempt_spec, read_exit
from mission_tui.records.runs.layout import RunDir

KNOWN_FORMATS = (
    "run directories, metrics.jsonl, SB3's progress.csv, progress.json and monitor.csv, TensorBoard event files, and "
    "tables or JSON lines with a column of steps (such as timestep) and one of returns (such as mean_reward)"
)
_NO_LOG = f"is not a training log; known are {KNOWN_FORMATS}"
_UNPACK = {"unpack it": "tar xf", "decompress it": "gunzip -k"}
_CHART_OF_TENSORBOARD = "Wall time,Step,Value"
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
    if first.replace('"', "") == _CHART_OF_TENSORBOARD:
        raise LogError(f"{path}: is one chart of TensorBoard, of a metric that it does not name; judge the event files")
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
    """The run whose directory is `path`; where a spec or an exit record cannot be read, its rows alone, and why."""
    run = RunDir(path)
    records, damage = read_all(run.metrics, MetricRecord)
    events, more = read_all(run.events, FleetEvent)
    attempts = sorted({record.attempt for record in records})
    try:
        specs = {number: read_attempt_spec(run, number) for number in attempts}
        exits = {number: read_exit(run.attempt(number).exit) for number in attempts}
    except MissionError as error:
        alone = read_metrics(run.metrics)
        return replace(alone, path=path, damage=(f"{error}: what it was trained with is not known", *alone.damage))
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
        specs = {record.attempt: own.get(record.attempt, own[1]) for record in records} if own else {}
    except LogError:
        raise
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError, KeyError, TypeError, MissionError) as error:
        raise LogError(f"{path}: is not a recorded trace: {error!r:.200}") from None
    if not own:
        # An archive of a run directory has records too.
        how = "unpack it" if ".tar" in path.name or path.name.endswith(".tgz") else "decompress it"
        raise LogError(f"{path}: is compressed, and no recorded trace; {how} first, such as with {_UNPACK[how]}")
    return TrainingLog(path, tuple(records), Settings(), specs)


def _unpacked(path: Path) -> Iterator[bytes]:
    left = MOST_TRACE_BYTES
    with os.fdopen(open_named(path), "rb") as packed, gzip.GzipFile(fileobj=packed) as file:
        for line in lines_of(file, path):
            left -= len(line)
            if left < 0:
                raise LogError(f"{path}: grows to more than {MOST_TRACE_BYTES >> 20} MiB, so it is not read")
            yield line


LARGEST_BYTES = 256 << 20
"""Of a file that nobody named. Rows of a larger one would need some gigabytes of memory."""
MOST_FILES = 200_000
MOST_SEEN = 1000
"""Below a folder that was to be a log, and is none."""
_MAY_BE = (".csv", ".json", ".jsonl", ".jsonl.gz", ".npz")


def read_any(path: Path) -> TrainingLog:
    """The log at `path`, event files and monitors included; of a folder, the log in it.

    Raises `LogError` naming the file and what is wrong with it.
    """
    try:
        return read_log(path)
    except LogError:
        try:
            if events := event_files(path):
                log = read_events(path, events)
            elif monitors := monitor_files(path):
                log = read_episodes(path, monitors)
            elif below := _logs_below(path):
                more = f", or -r all {len(below)} below it" if len(below) > 1 else ""
                raise LogError(f"{path}: holds no training log itself; judge {below[0]}{more}") from None
            else:
                raise
        except OSError as unread:
            raise LogError(f"{path}: cannot be read: {unread.strerror or unread}") from None
    if not log.updates:
        raise LogError(f"{path}: contains no update yet")
    return log


def _logs_below(path: Path) -> list[Path]:
    """What is a log among the first things below `path`, which is none: folders, such as the `tb/PPO_1` of
    `tensorboard_log`, and monitors that somebody named.
    """
    if not path.is_dir():
        return []
    seen = (it for it in islice(logs_below(path), MOST_SEEN) if isinstance(it, Path))
    return [it for it in seen if it != path and (it.is_dir() or monitor_files(it))]


def logs_below(folder: Path) -> Iterator[Path | LogError]:
    """What `read_any` takes of everything below `folder`, in the order of names; what is no log, as the reason.

    Raises `LogError` for a folder that cannot be read, or is none.
    """
    if not folder.is_dir():
        raise LogError(f"{folder}: is not a folder")
    seen = 0
    unread: list[OSError] = []
    for here, folders, files in os.walk(folder, onerror=unread.append):
        yield from (LogError(f"{it.filename}: cannot be read: {it.strerror}") for it in unread)
        unread.clear()
        folders[:] = sorted(it for it in folders if not it.startswith("."))
        place = Path(here)
        if (place / "spec.toml").is_file() and (place / "events.jsonl").is_file():
            folders.clear()
            if (place / "metrics.jsonl").is_file():
                yield place
            continue
        seen += len(files)
        if seen > MOST_FILES:
            yield LogError(
                f"{here}: was not looked at, nor what comes after it: there are more than {MOST_FILES} files"
            )
            return
        yield from _in_folder(place, sorted(files))
    yield from (LogError(f"{it.filename}: cannot be read: {it.strerror}") for it in unread)


def _in_folder(place: Path, names: list[str]) -> Iterator[Path | LogError]:
    """A table stands for the whole run, else its event files, else its monitors; each other file stands for itself."""
    tables = (*TABLES, OTHERS_TABLE)
    table = next((name for name in tables if name in names), None)
    events = [name for name in names if "tfevents" in name]
    workers = {path.name for path in monitor_files(place)}
    if table is not None:
        yield from _checked(place / table)
    elif events or workers:
        yield place
    for name in names:
        if name not in (*tables, *events, *workers) and name.endswith(_MAY_BE):
            yield from _checked(place / name)


def _checked(path: Path) -> Iterator[Path | LogError]:
    try:
        size = path.stat().st_size if path.is_file() else None
    except OSError as error:
        yield LogError(f"{path}: cannot be read: {error.strerror}")
        return
    if size is None:
        return  # a socket, a pipe, a link to nothing: no file at all
    if path.suffix == ".npz":
        yield LogError(f"{path}: holds arrays, such as the returns of evaluations, and no log of a training")
    elif size > LARGEST_BYTES:
        yield LogError(f"{path}: is larger than {LARGEST_BYTES >> 20} MiB; name it alone to have it judged")
    else:
        yield path
