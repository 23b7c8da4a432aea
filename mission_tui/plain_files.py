"""Opening what lies under a runs root: plain files alone, no link followed, nothing that waits.

Whoever may write in a run directory, a runs root that came with a repository included, can put a link, a pipe, a device
or a file of terabytes under any name there. So every reader and writer of such files opens them here (a test of the
house holds it). Below a run directory, `.supervisor` or `.trash` no folder on the way may be a link either; the folders
above are the user's own business. Standard library only, for the rooms that load nothing else.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_GROUND = re.compile(
    r"/(?:\.supervisor|\.trash|(?:[a-z]+-)?(?:\d{1,15}\.)?\d{8}-\d{6}-[a-z0-9][a-z0-9._-]*-[0-9a-f]{4}(?:@[^/]*)?)(?=/)"
)
"""A folder below which everything is ours, by its name. The first on the way counts: more is looked at, not less."""

_ALWAYS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


_LARGE_BYTES = 64 << 20
_SPARSE = 256
_GROWN_BYTES = 1 << 16
_GETVERSION = 0x80087601 if sys.maxsize > 1 << 32 else 0x80047601
"""FS_IOC_GETVERSION of linux/fs.h: the generation of an inode, which changes when its number is given away again."""


def open_plain(path: Path | str) -> tuple[int, os.stat_result]:
    """`path` for reading, for the caller to close, and what it is now.

    Raises `OSError`, at once, for what is no plain file, or lies behind a link, or belongs to somebody who owns neither
    it nor its folder. A superuser may read everybody's.
    """
    descriptor = _open(os.fspath(path), os.O_RDONLY)
    return descriptor, _checked(descriptor, path)


def read_plain(path: Path | str, most: int) -> bytes:
    """The bytes of `path`, `most` of them at most. Raises `OSError` as `open_plain` does, and for a longer one."""
    return _read(*open_plain(path), path, most)


def read_given(path: Path | str, most: int) -> bytes:
    """The bytes of a file that a person named, which may be a link and anybody's; below a run directory as any there.

    Raises `OSError` for what is no plain file, or has more than `most` bytes.
    """
    return _read(*_given(path), path, most)


def open_named(path: Path | str) -> int:
    """A file that a person named, which may be a link and anybody's, for reading and for the caller to close.

    Raises `OSError`, at once, for what is no plain file, next to nothing but holes, or a file of the kernel, which may
    say things for ever (`/proc/kmsg`).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    _checked(descriptor, path, anybodys=True)
    return descriptor


def open_to_append(path: Path | str) -> int:
    """`path` for reading and appending, made (0600) where it is missing. Raises `OSError` as `open_to_lock` does."""
    return _owned(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)


def open_to_lock(path: Path | str, *, make: bool = True) -> int:
    """`path` for reading and writing, made (0600) where it is missing; without `make` only to ask whether it is free.

    Raises `OSError` for what is no plain file of ours, or has a second name: what is written there would arrive
    elsewhere.
    """
    return _owned(path, os.O_RDWR | os.O_CREAT) if make else _open_there(path)


def open_fresh(path: Path | str, mode: int = 0o600) -> int:
    """A new empty file at `path` for reading and writing; whatever bore the name has it no more. Raises `OSError`."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    try:
        descriptor = _open(os.fspath(path), flags, mode)
    except FileExistsError:
        _unlink(os.fspath(path))
        descriptor = _open(os.fspath(path), flags, mode)
    _open_to_us(descriptor, os.fstat(descriptor))
    return descriptor


def open_folder(path: Path | str, *, listed: bool = True) -> int:
    """The folder `path`, to list and sync it; with `listed` false only to work in it. Raises `OSError` for a link."""
    return _open(os.fspath(path), os.O_RDONLY | os.O_DIRECTORY if listed else os.O_PATH | os.O_DIRECTORY)


def make_folder(path: Path) -> None:
    """Make the folder `path` with its parents, for us alone. Raises `OSError` where something else bears its name."""
    try:
        _make_in_parent(path)
    except FileNotFoundError:
        make_folder(path.parent)
        _make_in_parent(path)


def _make_in_parent(path: Path) -> None:
    """The same where its parent is there."""
    try:
        _mkdir(os.fspath(path))
        _enterable(path)
    except FileExistsError:
        if _GROUND.search(f"{path}/") is not None:
            os.close(open_folder(path, listed=False))
        elif not path.is_dir():
            raise


def names_in(path: Path | str, most: int = 1_000_000) -> list[str]:
    """The names in the folder `path`, in no order; the first `most` of them. Raises `OSError`, for a link too."""
    folder = open_folder(path)
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry, _ in zip(entries, range(most), strict=False)]
    finally:
        os.close(folder)


def remove_tree(path: Path | str) -> None:
    """Remove the folder `path` with all that is in it; links are removed, not followed. Raises `OSError`.

    However deep it is: nothing is called within itself, one folder is open at a time, and no name grows longer than
    the system takes.
    """
    folder = open_folder(path)
    try:
        full = _emptied(folder)
        way: list[tuple[tuple[int, int], str, list[str]]] = []
        while full or way:
            if full:
                name = full.pop()
                way.append((_identity(folder), name, full))
                folder = _moved_to(folder, name)
                full = _emptied(folder)
            else:
                outer, name, full = way.pop()
                folder = _moved_to(folder, "..")
                if _identity(folder) != outer:
                    raise OSError(errno.ESTALE, "it was moved while it was removed", str(path))
                os.rmdir(name, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(path)  # noqa: PTH106 - may be bytes of any form


def _moved_to(folder: int, name: str) -> int:
    """The folder `name` in `folder`, which is closed."""
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _ALWAYS, dir_fd=folder)
    os.close(folder)
    return inner


def _identity(folder: int) -> tuple[int, int]:
    facts = os.fstat(folder)
    return facts.st_dev, facts.st_ino


def _emptied(folder: int) -> list[str]:
    """The folders in `folder` that hold something, once all else in it is removed."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    full = []
    for name, is_folder in found:
        try:
            (os.rmdir if is_folder else os.unlink)(name, dir_fd=folder)
        except OSError as error:
            if not is_folder or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            full.append(name)
    return full


def _given(path: Path | str) -> tuple[int, os.stat_result]:
    if _GROUND.search(os.fspath(path)) is not None:
        return open_plain(path)
    descriptor = open_named(path)
    return descriptor, os.fstat(descriptor)


def _open_there(path: Path | str) -> int:
    try:
        descriptor = _open(os.fspath(path), os.O_RDWR)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        # A disk became read-only under runs: their locks are still held, or free. NFS alone locks nothing that is read.
        descriptor = _open(os.fspath(path), os.O_RDONLY)
    _checked(descriptor, path, sparse_ok=True)
    return descriptor


def _owned(path: Path | str, flags: int) -> int:
    descriptor = _open(os.fspath(path), flags)
    facts = _checked(descriptor, path, sparse_ok=True)
    if facts.st_nlink > 1:
        os.close(descriptor)
        raise OSError(
            errno.EMLINK, "it has a second name (a hard link) and what is written would change that file too", str(path)
        )
    if facts.st_uid != os.geteuid() != 0:
        os.close(descriptor)
        raise OSError(errno.EPERM, f"it belongs to user {facts.st_uid}", str(path))
    _open_to_us(descriptor, facts)
    return descriptor


def _open_to_us(descriptor: int, facts: os.stat_result) -> None:
    """See that we may open it again: a file that was made in a shell with umask 777 is closed to its owner too."""
    if facts.st_mode & 0o600 != 0o600 and facts.st_uid == os.geteuid():
        os.fchmod(descriptor, stat.S_IMODE(facts.st_mode) | 0o600)


def _enterable(path: Path) -> None:
    """Likewise for a folder that was just made."""
    if path.lstat().st_mode & 0o700 != 0o700:
        path.chmod(0o700)


def _open(path: str, flags: int, mode: int = 0o600) -> int:
    ground = _GROUND.search(path)
    try:
        if ground is None:
            return os.open(path, flags | _ALWAYS, mode)
        folder, name = _walk(path, ground.end())
        try:
            return os.open(name, flags | _ALWAYS, mode, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise _named(error, path) from None


def _walk(path: str, end: int) -> tuple[int, str]:
    """The folder that holds `path`, reached from its first `end` characters without a link, and the last name."""
    *between, name = (part for part in path[end:].split("/") if part)
    folder = os.open(path[:end], _FOLDER)
    for part in between:
        try:
            inner = os.open(part, _FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder, name


def _mkdir(path: str) -> None:
    ground = _GROUND.search(path)
    if ground is None:
        Path(path).mkdir(mode=0o700)
        return
    try:
        folder, name = _walk(path, ground.end())
        try:
            os.mkdir(name, 0o700, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise _named(error, path) from None


def _unlink(path: str) -> None:
    ground = _GROUND.search(path)
    if ground is None:
        Path(path).unlink()
        return
    folder, name = _walk(path, ground.end())
    try:
        os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)


def _named(error: OSError, path: str) -> OSError:
    """`error` with the whole path, and a link called one."""
    if error.errno == errno.ELOOP:
        return OSError(errno.ELOOP, "it is a symbolic link, and none is followed here", path)
    if error.errno == errno.ENXIO:
        return OSError(errno.EINVAL, "not a regular file", path)
    if error.errno is None:
        return error
    return OSError(error.errno, error.strerror, path)


def _checked(descriptor: int, path: Path | str, *, anybodys: bool = False, sparse_ok: bool = False) -> os.stat_result:
    """What was opened; closed again where it may not be used."""
    facts, me = os.fstat(descriptor), os.geteuid()
    number, against = 0, ""
    if not facts.st_size and anybodys and _is_of_kernel(descriptor):
        number, against = errno.EINVAL, "a file of the kernel, and no regular one"
    elif not stat.S_ISREG(facts.st_mode):
        number, against = errno.EINVAL, "not a regular file"
    elif not anybodys and facts.st_uid not in (me, 0) and me != 0 and facts.st_uid != _owner_of_folder(path):
        number, against = errno.EPERM, f"it belongs to user {facts.st_uid}"
    elif not sparse_ok and facts.st_size > _LARGE_BYTES and _is_sparse(descriptor, facts):
        number, against = errno.EFBIG, f"it has {facts.st_size:,} bytes, and nearly all of them are holes"
    if against:
        os.close(descriptor)
        raise OSError(number, against, str(path))
    return facts


def _is_of_kernel(descriptor: int) -> bool:
    return os.readlink(f"/proc/self/fd/{descriptor}").startswith(("/proc/", "/sys/"))  # noqa: PTH115 - only str is wanted


def _is_sparse(descriptor: int, facts: os.stat_result) -> bool:
    """Whether there is next to nothing in the file, which costs nothing to make and hours to read.

    Some file systems count no blocks: there the bytes are asked for.
    """
    if facts.st_blocks * 512 > facts.st_size // _SPARSE:
        return False
    place = data = 0
    with suppress(OSError):
        for _ in range(64):
            begin = os.lseek(descriptor, place, os.SEEK_DATA)
            place = os.lseek(descriptor, begin, os.SEEK_HOLE)
            data += place - begin
    os.lseek(descriptor, 0, os.SEEK_SET)
    return data <= facts.st_size // _SPARSE


def _owner_of_folder(path: Path | str) -> int | None:
    """Whoever owns the folder may put there what they like; so another user's whole runs root can be looked at."""
    with suppress(OSError):
        return os.lstat(os.path.dirname(path) or ".").st_uid  # noqa: PTH120 - may be bytes of any form
    return None


def _read(descriptor: int, facts: os.stat_result, path: Path | str, most: int) -> bytes:
    try:
        size = facts.st_size
        # Asked for what is there and a byte more: `most` of them at once would be a buffer of that size for every file.
        parts = [os.read(descriptor, size + 1)] if size <= most else []
        while parts and parts[-1] and size <= most:
            parts.append(os.read(descriptor, _GROWN_BYTES))
            size = sum(map(len, parts))
    finally:
        os.close(descriptor)
    if size > most:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes, and at most {most:,} are read", str(path))
    return b"".join(parts)


class Inode(NamedTuple):
    """`device` is `st_dev`, `filesystem` is `f_fsid` (0: it has none), `generation` is None where there are none."""

    device: int
    filesystem: int
    inode: int
    generation: int | None


def inode_of(path: Path | int) -> Inode:
    """What `path` (or an open descriptor) is. A link is not followed, nothing blocks. Raises `OSError`."""
    if isinstance(path, int):
        return _of_descriptor(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        return _of_descriptor(descriptor)
    finally:
        os.close(descriptor)


def same_inode(one: Inode, other: Inode) -> bool:
    """Whether both are the same file. Devices are numbered anew at each boot; then the file system's own id counts."""
    same_device = one.device == other.device or (one.filesystem != 0 and one.filesystem == other.filesystem)
    return same_device and (one.inode, one.generation) == (other.inode, other.generation)


def _of_descriptor(descriptor: int) -> Inode:
    status = os.fstat(descriptor)
    return Inode(status.st_dev, os.statvfs(descriptor).f_fsid, status.st_ino, _generation(descriptor))


def _generation(descriptor: int) -> int | None:
    try:
        # The kernel writes an int, although the number of the call says long.
        return int.from_bytes(fcntl.ioctl(descriptor, _GETVERSION, bytes(8))[:4], sys.byteorder)
    except OSError:
        return None
