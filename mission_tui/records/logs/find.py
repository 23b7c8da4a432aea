"""Whichever log a path means, and all logs below a folder.

A folder that is one run (a run directory of ours, a table or event files in it, monitors of its workers) is one log.
Every other file that could be one is tried, and what it is instead is said. Links to folders are not followed, and
folders whose name begins with a dot, such as the trash of a runs root, are passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from mission_tui.records.logs.event_files import event_files, read_events
from mission_tui.records.logs.log import LogError, TrainingLog
from mission_tui.records.logs.monitors import monitor_files, read_episodes
from mission_tui.records.logs.read import OTHERS_TABLE, TABLES, read_log

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
