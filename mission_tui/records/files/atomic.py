"""Whole files that are either the old one or the new one, never a part, and reading the JSON ones back.

The way is always the same: temporary sibling, fsync, rename, fsync of the folder.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mission_tui.errors import DamagedError
from mission_tui.plain_files import open_folder, open_fresh, read_plain
from mission_tui.records.files.storage import storing

__all__ = ["read_json", "sync_folder", "write_all", "write_atomic", "write_json"]

JSON_BYTES = 16 << 20
"""Longer than any order with the largest environment that the kernel starts a process with."""

T = TypeVar("T")


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte of `data`; a short write goes on where it stopped."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(path: Path) -> None:
    """Make the names in folder `path` durable."""
    descriptor = open_folder(path)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Make `path` hold exactly `data`, durably, or leave what was there. Raises `StorageError`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with storing(path):
        try:
            descriptor = open_fresh(temporary, mode)
            try:
                write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)


def write_json(path: Path, obj: Any, mode: int = 0o600) -> None:
    """Make `path` hold `obj` (anything msgspec encodes) as indented JSON. Raises `StorageError`."""
    write_atomic(path, msgspec.json.format(msgspec.json.encode(obj), indent=2) + b"\n", mode)


def read_json(path: Path, type_: type[T]) -> T | None:
    """The `type_` that `write_json` left in `path`, None if it does not exist. Raises `DamagedError`, and `OSError`."""
    try:
        raw = read_plain(path, JSON_BYTES)
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(raw, type=type_)
    except (ValueError, RecursionError, OverflowError) as error:
        raise DamagedError(f"{path} does not hold what was written there: {error}") from error
