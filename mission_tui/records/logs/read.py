"""Which format a file or folder is, by what it holds and not by its name, and the log in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from mission_tui.records.logs.log import LogError, TableRow, TrainingLog
from mission_tui.records.logs.progress import is_header, read_csv, read_json
from mission_tui.records.logs.recorded import read_metrics, read_run, read_trace
from mission_tui.records.logs.settings import settings_in
from mission_tui.records.logs.table import updates_of

__all__ = ["KNOWN_FORMATS", "log_of_rows", "read_log"]

KNOWN_FORMATS = "run directories, metrics.jsonl, SB3's progress.csv and progress.json, TensorBoard event files"
_IN_FOLDERS = ("progress.csv", "progress.json")
_SNIFFED_BYTES = 65_536


def read_log(path: Path) -> TrainingLog:
    """The training log at `path`; of a folder, the log in it. Event files are not read here.

    Raises `LogError` naming the file and what is wrong with it.
    """
    try:
        log = _read(path)
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not log.updates:
        raise LogError(f"{path}: tells of no update yet")
    return log


def log_of_rows(path: Path, rows: Iterable[TableRow], damage: list[str]) -> TrainingLog:
    """The log whose rows `rows` are; `damage` is what was found wrong once they are all read."""
    updates = updates_of(rows)
    more = f" ({len(damage) - 1} more lines like it)" if len(damage) > 1 else ""
    return TrainingLog(path, updates, settings_in(updates), damage=tuple(f"{it}{more}" for it in damage[:1]))


def _read(path: Path) -> TrainingLog:
    if path.is_dir():
        return _read_folder(path)
    with path.open("rb") as file:
        if not path.is_file():
            raise LogError(f"{path}: is neither a file nor a folder")
        head = file.read(_SNIFFED_BYTES)
    if head.startswith(b"\x1f\x8b"):
        return read_trace(path)
    text = head.decode("utf-8", errors="replace").lstrip()
    if not text:
        raise LogError(f"{path}: is empty")
    first = text.splitlines()[0]
    if first.startswith("{"):
        if '"kind"' not in first:
            return _table(path, read_json)
        ours = path.name == "metrics.jsonl" and (path.parent / "spec.toml").is_file()
        return read_run(path.parent) if ours else read_metrics(path)
    if is_header(first.split(",")):
        return _table(path, read_csv)
    raise LogError(f"{path}: is no training log; known are {KNOWN_FORMATS}")


def _read_folder(path: Path) -> TrainingLog:
    if (path / "spec.toml").is_file():
        return read_run(path)
    for name in ("metrics.jsonl", *_IN_FOLDERS):
        if (path / name).is_file():
            return _read(path / name)
    raise LogError(f"{path}: holds no training log; known are {KNOWN_FORMATS}")


def _table(path: Path, reader: Callable[[Path, list[str]], Iterator[TableRow]]) -> TrainingLog:
    damage: list[str] = []
    return log_of_rows(path, reader(path, damage), damage)
