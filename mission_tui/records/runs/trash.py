"""The trash of a runs root: runs and checkpoints that were removed stay whole for a while, and come back by one rename.

The name says since when by the machine's clock; `.since-NAME` beside it by the boot clock, which nobody can set, so
that a clock that is set purges nothing.

`.trash/SECONDS.RUN` is a run's directory, `.trash/SECONDS.RUN@CHECKPOINT` a checkpoint. A
crash leaves each where it was or in the trash, and what is being purged bears another name first.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from mission_tui.errors import DamagedError, UsageError
from mission_tui.plain_files import make_folder, names_in, open_folder, open_fresh, read_plain, remove_tree
from mission_tui.procfs import boot_id
from mission_tui.records.atomic import storing, sync_folder
from mission_tui.records.runs.layout import RUN_ID, RunDir, supervisor_dir

KEPT_S = 86400.0
"""Seconds after which what lies in the trash may be purged: a day."""

REMOVING = "removing-"
_SINCE = ".since-"
_KEPT_CLOCK_S = 2.0
"""Less is a clock that is kept, and the part of a second that the name leaves out."""
_SINCE_BYTES = 100
_NAME = re.compile(rf"(\d{{1,15}})\.({RUN_ID.pattern})(?:@([0-9A-Za-z][0-9A-Za-z._-]*))?")


class Trashed(Struct, frozen=True):
    """What lies at `path` since unix time `t`: a run, or of a run the checkpoint `checkpoint`.

    `t` is as the clock shows it now: if that was set meanwhile on this boot, what is an hour old is an hour old.
    """

    path: Path
    run: str
    checkpoint: str | None
    t: float


class _Moment(NamedTuple):
    boot_id: str
    boot_s: float

    @classmethod
    def of_now(cls) -> _Moment:
        return cls(boot_id(), time.clock_gettime(time.CLOCK_BOOTTIME))


def trash_dir(root: Path) -> Path:
    """Where removed things lie; absent while nothing was ever removed."""
    return root / ".trash"


def move_to_trash(root: Path, run: RunDir, checkpoint: str | None = None) -> Trashed:
    """Move the run, or one checkpoint of it, to the trash. Nothing of it may live. Raises `StorageError`."""
    what = run.path if checkpoint is None else run.checkpoints / checkpoint
    now = int(time.time())
    name = f"{now}.{run.id}" if checkpoint is None else f"{now}.{run.id}@{checkpoint}"
    there = trash_dir(root) / name
    with storing(what, "remove"):
        make_folder(trash_dir(root))
        _note_since(there)
        what.rename(there)
        sync_folder(there.parent)
        sync_folder(what.parent)
    return Trashed(there, run.id, checkpoint, float(now))


def restore_from_trash(root: Path, item: Trashed) -> Path:
    """Move it back to where it was. Raises `UsageError` when its place is taken or gone, `StorageError`."""
    run = RunDir(root / item.run)
    place = run.path if item.checkpoint is None else run.checkpoints / item.checkpoint
    if place.exists() or not place.parent.is_dir():
        why = "something of that name is already there" if place.exists() else f"{place.parent} is gone"
        raise UsageError(f"{item.path} cannot be put back to {place}: {why}")
    with storing(place, "put back"):
        # Of a run from elsewhere its folder of checkpoints may be a link to anywhere.
        parent = open_folder(place.parent, listed=False)
        try:
            os.rename(item.path, place.name, dst_dir_fd=parent)
        finally:
            os.close(parent)
        _since(item.path).unlink(missing_ok=True)
        sync_folder(place.parent)
        sync_folder(item.path.parent)
    return place


def purge(root: Path, item: Trashed) -> None:
    """Delete it for good. Raises `StorageError`."""
    removing = supervisor_dir(root) / f"{REMOVING}{item.path.name}"
    with storing(item.path, "remove"):
        item.path.rename(removing)
        _since(item.path).unlink(missing_ok=True)
        sync_folder(item.path.parent)
        remove_tree(removing)


def trashed(root: Path) -> list[Trashed]:
    """What lies in the trash, the longest there first. What has another kind of name is left alone.

    Raises `StorageError`.
    """
    folder = trash_dir(root)
    with storing(folder, "list"):
        try:
            names = names_in(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        now = _Moment.of_now()
        paths = {name: folder / name for name in names}
    found = [(path, _NAME.fullmatch(name)) for name, path in paths.items()]
    items = [Trashed(path, match[2], match[3], _thrown_t(path, match[1], now)) for path, match in found if match]
    for name, path in paths.items():
        # Of a crash before the rename, or of what was taken out by hand.
        if name.startswith(_SINCE) and name.removeprefix(_SINCE) not in paths:
            with suppress(OSError):
                path.unlink()
    return sorted(items, key=lambda item: (item.t, item.path.name))


def tree_bytes(path: Path) -> int:
    """Bytes of the plain files below `path`, links not followed; what vanishes meanwhile counts for nothing."""
    folders, size = [os.fspath(path)], 0
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    size += entry.stat(follow_symlinks=False).st_size
    return size


def _since(item: Path) -> Path:
    return item.with_name(f"{_SINCE}{item.name}")


def _note_since(item: Path) -> None:
    """On a full disk things are removed all the same: the name's own moment has to do then."""
    with suppress(OSError):
        boot_id, boot_s = _Moment.of_now()
        with os.fdopen(open_fresh(_since(item)), "w", encoding="ascii") as file:
            file.write(f"{boot_id} {boot_s:.3f}\n")


def _thrown_t(item: Path, named: str, now: _Moment) -> float:
    """By the boot clock on the boot on which it was thrown away, by its name on another."""
    with suppress(OSError, ValueError, DamagedError):
        boot_id, _, boot_s = read_plain(_since(item), _SINCE_BYTES).decode("ascii").strip().partition(" ")
        if boot_id == now.boot_id and 0.0 <= float(boot_s) <= now.boot_s:
            thrown_t = time.time() - (now.boot_s - float(boot_s))
            # While nobody set the clock the name is right, and two looks at one thing see the same.
            return thrown_t if abs(thrown_t - float(named)) > _KEPT_CLOCK_S else float(named)
    return float(named)
