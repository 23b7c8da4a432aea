"""Whole files that are either the old one or the new one, never a part, and reading the JSON ones back.

The way is always the same: temporary sibling, fsync, rename, fsync of the folder. Files that belong together have no
name until all of them are written, and a directory is replaced by an exchange of names.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mission_tui.errors import DamagedError
from mission_tui.plain_files import make_folder, open_folder, open_fresh, read_plain
from mission_tui.records.files.storage import storing

JSON_BYTES = 16 << 20
"""Longer than any order with the largest environment that the kernel starts a process with."""

T = TypeVar("T")
AT_FDCWD = -100
RENAME_EXCHANGE = 2
_UNABLE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
"""What a file system, or a kernel, says that has no files without a name; or there is no /proc."""


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


def exchange(first: Path, second: Path) -> None:
    """Swap what `first` and `second` name (`renameat2(2)`). Raises `OSError`: EINVAL where the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(first))


def write_atomic_group(folder: Path, contents: Mapping[str, bytes], mode: int = 0o600) -> None:
    """Make `folder`, with its parents if need be, hold the files of `contents` by name, durably; what was there under
    these names is replaced. Raises `StorageError`.
    """
    with storing(folder):
        try:
            _linked(folder, contents, mode)
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
            make_folder(folder)
            for name, content in contents.items():
                write_atomic(folder / name, content, mode)


def _linked(folder: Path, contents: Mapping[str, bytes], mode: int) -> None:
    with ExitStack() as stack:
        beside = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
        made = {name: stack.enter_context(_nameless(beside, content, mode)) for name, content in contents.items()}
        mine = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, mine)
        make_folder(folder)
        for name, descriptor in made.items():
            _name(descriptor, mine, folder / name)
        sync_folder(folder)


@contextmanager
def _nameless(folder: Path, content: bytes, mode: int) -> Iterator[int]:
    """A descriptor of a file in `folder`'s file system that holds `content`, durably, and has no name."""
    descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, mode)
    try:
        write_all(descriptor, content)
        os.fsync(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def _name(descriptor: int, mine: int, path: Path) -> None:
    """Give the file its name. A link replaces nothing, so a file that is there is replaced by a rename.

    `mine` is the folder of this process's descriptors: without one, Python links to the symbolic link in it.
    """
    try:
        os.link(str(descriptor), path, src_dir_fd=mine)
    except FileExistsError:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        temporary.unlink(missing_ok=True)
        os.link(str(descriptor), temporary, src_dir_fd=mine)
        temporary.replace(path)
