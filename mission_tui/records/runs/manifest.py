"""What a checkpoint directory is: member files and the `manifest.json` that lists their sizes and SHA-256.

A directory passes only if it holds exactly the listed members, each a regular file with the listed bytes. Nothing here
looks inside a member.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from mission_tui.errors import CheckpointError, DamagedError
from mission_tui.fleet.ranges import Bytes, Count, UnixTime
from mission_tui.plain_files import names_in, open_fresh, open_plain, read_plain
from mission_tui.records.files.atomic import sync_folder, write_all
from mission_tui.records.files.lines import LINE_BYTES, decode_line, encode_line

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
    descriptor = open_fresh(folder / MANIFEST)
    try:
        write_all(descriptor, encode_line(manifest))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(folder)
    return manifest


def verify_checkpoint(path: Path) -> Manifest:
    """The manifest of checkpoint `path`, every byte of which was read and compared. Raises `CheckpointError`."""
    return verify_folder(path, path.name)


def verify_folder(folder: Path, name: str) -> Manifest:
    """What `verify_checkpoint` does, for a directory that does not bear its checkpoint's `name` yet."""
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
