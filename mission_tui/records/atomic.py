"""Whole files that are either the old one or the new one, never a part; reading the JSON ones back; and what the disk
refuses, as a sentence.

The way is always the same: temporary sibling, fsync, rename, fsync of the folder. Files that belong together have no
name until all of them are written, and a directory is replaced by an exchange of names.

Every write of a run directory passes through `storing`, so that a full disk, a quota or a read-only remount always
names the file and what would help. `Reserve` is the space that is kept for the one write that must not fail then.
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

from mission_tui.errors import DamagedError, MissionError
from mission_tui.plain_files import make_folder, open_folder, open_fresh, open_to_lock, read_plain

REMEDIES = {
    errno.ENOSPC: "free some disk space there",
    errno.EDQUOT: "free some of your disk quota there",
    errno.EROFS: "the file system was mounted read-only; look at `dmesg`",
    errno.EACCES: "check who owns the folder",
    errno.EPERM: "it may be immutable: `lsattr -d` of its folder shows an i, and `chattr -i` takes it away",
    errno.EEXIST: "something that is no folder stands there; move it away",
    errno.ENOTDIR: "something that is no folder stands there; move it away",
    errno.EXDEV: "it lies on a lower layer of an overlay (a container's image), or on another file system, and cannot "
    "be moved from there: remove it with `rm -r`, or keep the runs root on a volume",
    errno.EIO: "the disk reports errors; copy the run directory to another one",
}

_FEW_INODES = 16
"""A folder that could not be filled was removed again, and its names are free when this is asked."""

JSON_BYTES = 16 << 20
"""Longer than any order with the largest environment that the kernel starts a process with."""

T = TypeVar("T")
AT_FDCWD = -100
RENAME_EXCHANGE = 2
_UNABLE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
"""What a file system, or a kernel, says that has no files without a name; or there is no /proc."""


class StorageError(MissionError):
    """The file system refused a write; `errno` tells a full disk from a broken one."""

    def __init__(self, sentence: str, number: int | None) -> None:
        super().__init__(sentence)
        self.errno = number

    @property
    def full(self) -> bool:
        """Whether the disk, or what one may use of it, is used up."""
        return self.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def storing(path: Path, action: str = "write") -> Iterator[None]:
    """Turn an `OSError` inside into a `StorageError` that names `path` and the remedy."""
    try:
        yield
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "check the folder and start again")
        if error.errno == errno.ENOSPC and _without_inodes(path):
            remedy = "its disk has room, but no inodes left (`df -i`): remove files there"
        raise StorageError(f"cannot {action} {path}: {error.strerror or error}; {remedy}", error.errno) from error


def _without_inodes(path: Path) -> bool:
    """Whether it is names that the disk of `path`, or of the folder that it was to stand in, has no more of."""
    for place in (path, *path.parents):
        with suppress(OSError):
            disk = os.statvfs(place)
            return bool(disk.f_files and disk.f_favail < _FEW_INODES and disk.f_bavail)
    return False


class Reserve:
    """The file `path` of `size_bytes` that holds nothing; one holder at a time.

    Whoever meets a full disk releases it and tries once more. It is held again as soon as there is room for it twice
    over, so that a disk that is nearly full does not swing.
    """

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.path, self.size_bytes = path, size_bytes

    @property
    def held(self) -> bool:
        """Whether the space is set aside now."""
        try:
            return self.path.lstat().st_size >= self.size_bytes
        except OSError:
            return False

    @property
    def needed(self) -> bool:
        """Whether the disk is as good as full: it is given up, or less than its size is free beside it."""
        return not self.held or self._free_bytes() < self.size_bytes

    def hold(self) -> bool:
        """Set the space aside where there is room for twice as much; says whether it is held. Never raises."""
        if self.held:
            return True
        try:
            if self._free_bytes() < 2 * self.size_bytes:
                return False
            # Afresh: what has the name now may be a link, or the second name of a file elsewhere that would grow.
            descriptor = open_fresh(self.path)
        except OSError:
            return False
        try:
            # Real blocks: a file with a hole would promise space that is not there.
            os.posix_fallocate(descriptor, 0, self.size_bytes)
        except OSError:
            self.release()
        finally:
            os.close(descriptor)
        return self.held

    def release(self) -> bool:
        """Give the space back; says whether there was any."""
        try:
            self.path.unlink()
        except OSError:
            return False
        return True

    def gives_way_to(self, error: StorageError, piece_bytes: int | None = None) -> bool:
        """Whether `error` is a full disk and the space, or a piece of it, was just given up for it: then trying again
        makes sense.
        """
        return error.full and (self.release() if piece_bytes is None else self._shrink(piece_bytes))

    def _shrink(self, piece_bytes: int) -> bool:
        try:
            left = self.path.lstat().st_size - piece_bytes
            if left <= 0:
                return self.release()
            descriptor = open_to_lock(self.path, make=False)
            try:
                os.ftruncate(descriptor, left)
            finally:
                os.close(descriptor)
        except OSError:
            return False
        return True

    def _free_bytes(self) -> int:
        try:
            stats = os.statvfs(self.path.parent)
        except OSError:
            return 0
        return stats.f_bavail * stats.f_frsize


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


def write_fresh(path: Path, data: bytes, mode: int = 0o600) -> None:
    """A new file at `path` of exactly `data`, on the disk but for its name. Raises `OSError`."""
    descriptor = open_fresh(path, mode)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Make `path` hold exactly `data`, durably, or leave what was there. Raises `StorageError`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with storing(path):
        try:
            write_fresh(temporary, data, mode)
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
    with storing(folder / next(iter(contents)) if len(contents) == 1 else folder):
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
