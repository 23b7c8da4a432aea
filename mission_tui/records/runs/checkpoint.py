"""Checkpoint directories: a complete, verified one appears under its name in one step, or not at all.

Each holds member files and the `manifest.json` that lists their sizes and SHA-256. `verify_checkpoint` passes it only
if it holds exactly the listed members, each a regular file with the listed bytes; nothing here looks inside a member. A
crash at any point leaves the old state or the new one, and the last verified checkpoint is never removed. The run's
trainer is the only writer; readers take `newest_verified`.
"""

from __future__ import annotations

import errno
import math
import os
import re
import shutil
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from mission_tui.errors import CheckpointError, DamagedError
from mission_tui.fleet.events.metrics import RETURN, MetricRecord, TrainingStarted, UpdateDone
from mission_tui.fleet.history.course import WHOLE_WINDOW
from mission_tui.fleet.ranges import Bytes, Count, UnixTime
from mission_tui.fleet.specs.spec import SPREAD_BYTES
from mission_tui.plain_files import make_folder, names_in, open_plain, read_plain, remove_tree
from mission_tui.records.atomic import exchange, storing, sync_folder, write_atomic, write_fresh
from mission_tui.records.jsonl import LINE_BYTES, decode_line, each_record, encode_line
from mission_tui.records.runs.layout import RunDir

MANIFEST = "manifest.json"


class Member(Struct, frozen=True):
    """What a file of a checkpoint must be: `size` in bytes, `sha256` in hex."""

    size: Bytes
    sha256: str


class CheckpointFacts(Struct, frozen=True, kw_only=True):
    """What the trainer says of the moment it saves: unix time `t`, JSON facts in `extra` (spaces, exactness, ...)."""

    run: str
    attempt: Count
    update: Count
    timesteps: Count
    t: UnixTime
    reason: str
    spec_sha256: str
    extra: dict[str, Any] = field(default_factory=dict)


class Manifest(CheckpointFacts, frozen=True, kw_only=True):
    """The facts, the checkpoint's name and its members by file name: `manifest.json` is this, as one `encode_line`."""

    name: str
    files: dict[str, Member]

    @property
    def size_bytes(self) -> int:
        """Bytes of all members."""
        return sum(member.size for member in self.files.values())


def seal_folder(folder: Path, name: str, facts: CheckpointFacts) -> Manifest:
    """Make the members in `folder` durable and write the manifest that lists them, last."""
    files = {name: _fingerprint(folder / name, sync=True) for name in sorted(names_in(folder))}
    fields = {key: getattr(facts, key) for key in facts.__struct_fields__}
    manifest = Manifest(**fields, name=name, files=files)
    write_fresh(folder / MANIFEST, encode_line(manifest))
    sync_folder(folder)
    return manifest


def verify_checkpoint(path: Path) -> Manifest:
    """The manifest of checkpoint `path`, every byte of which was read and compared. Raises `CheckpointError`."""
    return verify_folder(path, path.name)


def verify_folder(folder: Path, name: str) -> Manifest:
    """As `verify_checkpoint`, also in what it raises, of a directory that does not bear its checkpoint's `name` yet."""
    manifest = read_manifest(folder, name)
    try:
        present = set(names_in(folder)) - {MANIFEST}
        if present != manifest.files.keys():
            odd = min(present ^ manifest.files.keys())
            what = "is not in its manifest" if odd in present else "is missing"
            raise CheckpointError(f"checkpoint {folder} is not whole: {odd} {what}; use an earlier one")
        for member, expected in manifest.files.items():
            if _fingerprint(folder / member) != expected:
                raise CheckpointError(f"checkpoint {folder} is damaged: {member} changed; use an earlier one")
    except OSError as error:
        raise CheckpointError(f"checkpoint {folder} cannot be read: {error}") from error
    return manifest


def read_manifest(folder: Path, name: str) -> Manifest:
    """The manifest of checkpoint `name` in `folder`; its members are not looked at. Raises `CheckpointError`."""
    path = folder / MANIFEST
    try:
        raw = read_plain(path, LINE_BYTES)
        manifest: Manifest = decode_line(raw, Manifest)
    except OSError as error:
        raise CheckpointError(f"checkpoint {folder} has no readable {MANIFEST}: {error.strerror}") from error
    except DamagedError as error:
        raise CheckpointError(f"checkpoint {folder} is damaged: {MANIFEST}: {error}") from error
    if not raw.endswith(b"\n") or manifest.name != name:
        raise CheckpointError(f"checkpoint {folder} is damaged: its {MANIFEST} is cut or belongs to {manifest.name}")
    return manifest


def _fingerprint(path: Path, *, sync: bool = False) -> Member:
    """Size and digest of member `path`, which must be a regular file; with `sync`, after making it durable."""
    import hashlib  # with OpenSSL, which is quicker with gigabytes, and loaded by whoever has some

    try:
        descriptor, status = open_plain(path)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ELOOP):
            raise
        sentence = f"{path} is not a regular file; a checkpoint is a flat folder of regular files"
        raise CheckpointError(sentence) from error
    with os.fdopen(descriptor, "rb") as file:
        member = Member(size=status.st_size, sha256=hashlib.file_digest(file, "sha256").hexdigest())
        if sync:
            # Whatever wrote it had its own umask; a checkpoint is for its owner alone.
            os.fchmod(descriptor, 0o600)
            os.fsync(descriptor)
            # The page cache would vouch for bytes that the disk lost; the read-back has to ask the disk.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return member


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


class DamagedCheckpoint(Struct, frozen=True):
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
    """The newest checkpoint, None if there is none: for what must not take an older one for it.

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


def prune(checkpoints: Path, keep_last: int, protect: Collection[str], spread: int = 0) -> list[str]:
    """Remove checkpoints older than the newest `keep_last` (at least 1) verified ones, except those in `protect`, and
    except `spread` that show how the run came there.

    Returns the names removed, newest first. Damaged ones go by age like the others, and count for nothing. Raises
    `StorageError`.
    """
    newest, older = list[Manifest](), list[Manifest]()
    for manifest in reversed(list_checkpoints(checkpoints)):
        if len(newest) >= max(1, keep_last):
            if manifest.name not in protect:
                older.append(manifest)
            continue
        with suppress(CheckpointError):
            newest.append(verify_checkpoint(checkpoints / manifest.name))
    stay = _spread(older, spread, newest[-1].timesteps) if older and spread else set()
    removed = [manifest.name for manifest in older if manifest.name not in stay]
    for name in removed:
        _remove(checkpoints / name)
    return removed


def _spread(older: Iterable[Manifest], many: int, until: int) -> set[str]:
    """The names of at most `many` of `older` that are small, about evenly from the first to `until` steps. They were
    verified while they were among the newest, and are again by whoever plays one: not at each save.

    Where there are too many, that one goes whose neighbours are nearest to each other; so what stays of a run that goes
    on is ever farther apart, by at most a factor of two, whenever it is asked.
    """
    left = sorted((it for it in older if it.size_bytes <= SPREAD_BYTES), key=lambda it: it.timesteps)
    while len(left) > many:
        steps = [*(it.timesteps for it in left), until]
        del left[min(range(1, len(left)), key=lambda at: steps[at + 1] - steps[at - 1])]
    return {it.name for it in left}


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
    """The name of that one of `manifests` with the highest mean return, over a whole window of episodes where some are;
    None where no return is known of any.
    """
    returns = _returns(run, {(manifest.attempt, manifest.update) for manifest in manifests})
    judged = [manifest for manifest in manifests if (manifest.attempt, manifest.update) in returns]
    return max(judged, key=lambda it: returns[it.attempt, it.update]).name if judged else None


def _returns(run: RunDir, wanted: Container[tuple[int, int]]) -> dict[tuple[int, int], tuple[bool, float]]:
    """By each `wanted` attempt and update whether a whole window of episodes had ended, and their mean return."""
    returns = {}
    ended, ended_at = 0, dict[int, int]()
    for record in each_record(run.metrics, MetricRecord):
        if isinstance(record, TrainingStarted):
            ended = ended_at.get(record.from_update, ended)
        elif isinstance(record, UpdateDone):
            ended_at[record.update] = ended = ended + record.episodes.n
            value = record.metrics.get(RETURN)
            at = record.attempt, record.update
            if at in wanted and isinstance(value, float | int) and math.isfinite(value):
                returns[at] = (ended >= WHOLE_WINDOW, float(value))
    return returns
