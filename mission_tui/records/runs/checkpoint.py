"""Checkpoint directories: a complete, verified one appears under its name in one step, or not at all.

A crash at any point leaves the old state or the new one, and the last verified checkpoint is never removed. The run's
trainer is the only writer; readers take `newest_verified`.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mission_tui.errors import CheckpointError
from mission_tui.fleet.events.metrics import RETURN, MetricRecord, UpdateDone
from mission_tui.plain_files import make_folder, names_in, read_plain, remove_tree
from mission_tui.records.files.atomic import exchange, storing, sync_folder, write_atomic
from mission_tui.records.files.tail import read_all
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.manifest import (
    CheckpointFacts,
    Manifest,
    read_manifest,
    seal_folder,
    verify_checkpoint,
    verify_folder,
)

LATEST = "latest"
NAME_BYTES = 1 << 10
TEMPORARY = ".tmp-"
NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")


def save_checkpoint(checkpoints: Path, name: str, fill: Callable[[Path], None], facts: CheckpointFacts) -> Manifest:
    """Save a checkpoint: `fill` writes the member files (a flat folder) into the directory it is given.

    The directory is made durable and read back before it gets its name; then `latest` points to it. A checkpoint of
    that name is replaced in one step if it was taken at the same `timesteps`. When `fill` raises or the disk refuses,
    every earlier checkpoint is still there. Raises `CheckpointError` and `StorageError`.
    """
    if not NAME.fullmatch(name):
        raise CheckpointError(f"{name!r} cannot name a checkpoint: use letters, digits, '.', '_' and '-'")
    final, temporary = checkpoints / name, checkpoints / f"{TEMPORARY}{name}"
    with storing(final, "save checkpoint"):
        make_folder(checkpoints)
        _remove_leftovers(checkpoints)
        _check_replaceable(final, facts.timesteps)
        try:
            temporary.mkdir(mode=0o700)
            fill(temporary)
            manifest = seal_folder(temporary, name, facts)
            verify_folder(temporary, name)
            _put_in_place(temporary, final)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        write_atomic(checkpoints / LATEST, f"{name}\n".encode())
    return manifest


def newest_verified(checkpoints: Path) -> Manifest | None:
    """The newest checkpoint that verifies, None if none does. Damaged ones are passed over. Raises `StorageError`."""
    for manifest in reversed(list_checkpoints(checkpoints)):
        with suppress(CheckpointError):
            return verify_checkpoint(checkpoints / manifest.name)
    return None


@dataclass(frozen=True, slots=True)
class DamagedCheckpoint:
    """One that does not verify: its name, why, and its update where its manifest can be read."""

    name: str
    why: str
    update: int | None = None


def newest_intact(checkpoints: Path) -> tuple[Manifest | None, tuple[DamagedCheckpoint, ...]]:
    """The newest checkpoint that verifies, and those after it that do not, newest first; None if none verifies.

    One whose manifest cannot be read counts as newer by its name, which is its timesteps, and if `latest` names it.
    Raises `StorageError`.
    """
    damaged: list[DamagedCheckpoint] = []
    whole: Manifest | None = None
    readable = list_checkpoints(checkpoints)
    for manifest in reversed(readable):
        try:
            whole = verify_checkpoint(checkpoints / manifest.name)
            break
        except CheckpointError as error:
            damaged.append(DamagedCheckpoint(manifest.name, str(error), manifest.update))
    known, pointed = {manifest.name for manifest in readable}, _pointed(checkpoints)
    with storing(checkpoints, "list"):
        unread = sorted((path for path in _named_folders(checkpoints) if path.name not in known), reverse=True)
    for path in unread:
        try:
            read_manifest(path, path.name)
        except CheckpointError as error:
            later = path.name.isdecimal() and (whole is None or int(path.name) > whole.timesteps)
            if later or path.name in pointed:
                damaged.insert(0, DamagedCheckpoint(path.name, str(error)))
    return whole, tuple(damaged)


def newest_undamaged(checkpoints: Path) -> Manifest | None:
    """The newest checkpoint, None if there is none: for whoever must not take an older one for it.

    Raises `CheckpointError` where it does not verify, naming the newest that does, and `StorageError`.
    """
    verified = newest_verified(checkpoints)
    newest = {manifest.name for manifest in list_checkpoints(checkpoints)[-1:]} | _pointed(checkpoints)
    for name in newest - ({verified.name} if verified is not None else set()):
        with suppress(CheckpointError):
            verify_checkpoint(checkpoints / name)
            continue
        try:
            # Once more: a live run may have replaced it meanwhile.
            verify_checkpoint(checkpoints / name)
        except CheckpointError as error:
            rest = (
                f"{verified.name} is the newest undamaged one" if verified is not None else "there is no undamaged one"
            )
            raise CheckpointError(f"{error}; {rest}") from error
    return verified


def _pointed(checkpoints: Path) -> set[str]:
    """What `latest` points to, if that is there: its manifest may be what is damaged."""
    with suppress(OSError, UnicodeDecodeError):
        name = read_plain(checkpoints / LATEST, NAME_BYTES).decode("ascii").strip()
        return {name} if NAME.fullmatch(name) and (checkpoints / name).is_dir() else set()
    return set()


def list_checkpoints(checkpoints: Path) -> list[Manifest]:
    """Checkpoints with a readable manifest, in the order they were taken; their members were not looked at.

    Raises `StorageError` when the folder itself cannot be read.
    """
    manifests = []
    with storing(checkpoints, "list"):
        folders = list(_named_folders(checkpoints))
    for path in folders:
        with suppress(CheckpointError):
            manifests.append(read_manifest(path, path.name))
    # Not by `t`: the clock of a machine may step back between two saves.
    return sorted(manifests, key=lambda manifest: (manifest.attempt, manifest.update, manifest.timesteps))


def prune(checkpoints: Path, keep_last: int, protect: Collection[str]) -> list[str]:
    """Remove checkpoints older than the newest `keep_last` (at least 1) verified ones, except those in `protect`.

    Returns the names removed, newest first. Damaged ones go by age like the others, and count for nothing. Raises
    `StorageError`.
    """
    verified, removed = 0, []
    for manifest in reversed(list_checkpoints(checkpoints)):
        path = checkpoints / manifest.name
        if verified >= max(1, keep_last):
            if manifest.name not in protect:
                _remove(path)
                removed.append(manifest.name)
            continue
        with suppress(CheckpointError):
            verify_checkpoint(path)
            verified += 1
    return removed


def _named_folders(checkpoints: Path) -> Iterator[Path]:
    try:
        names = names_in(checkpoints)
    except FileNotFoundError:
        return
    for path in map(checkpoints.joinpath, names):
        if NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            yield path


def _check_replaceable(final: Path, timesteps: int) -> None:
    """Refuse to replace a verified checkpoint that was taken at another number of timesteps."""
    try:
        taken = verify_checkpoint(final)
    except CheckpointError:
        return
    if taken.timesteps != timesteps:
        raise CheckpointError(
            f"checkpoint {final} holds step {taken.timesteps} and stays; step {timesteps} needs its own name"
        )


def _put_in_place(temporary: Path, final: Path) -> None:
    """Give the finished directory its name; a checkpoint that had it is then under the temporary one."""
    if final.exists():
        exchange(temporary, final)
    else:
        temporary.rename(final)
    sync_folder(final.parent)


def _remove(path: Path) -> None:
    """Remove a checkpoint so that a crash on the way leaves no half of it under its name."""
    doomed = path.with_name(TEMPORARY + path.name)
    with storing(path, "remove checkpoint"):
        with suppress(FileNotFoundError):
            remove_tree(doomed)
        path.rename(doomed)
        remove_tree(doomed)


def _remove_leftovers(checkpoints: Path) -> None:
    """Remove what a killed save or removal left behind; only the run's one writer gets here."""
    for path in map(checkpoints.joinpath, names_in(checkpoints)):
        if path.name.startswith(TEMPORARY):
            remove_tree(path)


def best_checkpoint(run: RunDir, manifests: Sequence[Manifest]) -> str | None:
    """The name of that one of `manifests`; None where no return is known of any."""
    returns = _returns(run)
    judged = [manifest for manifest in manifests if (manifest.attempt, manifest.update) in returns]
    return max(judged, key=lambda it: returns[it.attempt, it.update]).name if judged else None


def _returns(run: RunDir) -> dict[tuple[int, int], float]:
    """Mean returns by attempt and update."""
    returns = {}
    for record in read_all(run.metrics, MetricRecord)[0]:
        if isinstance(record, UpdateDone):
            value = record.metrics.get(RETURN)
            if isinstance(value, float | int) and math.isfinite(value):
                returns[record.attempt, record.update] = float(value)
    return returns
