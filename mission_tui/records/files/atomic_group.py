"""Files that appear together, each whole, when all of them have been written: a report, a measurement, an evaluation.

Until then they have no name, so whoever is killed on the way leaves nothing behind: no part of a file, no temporary
one, and no folder that was made for them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mission_tui.plain_files import make_folder
from mission_tui.records.files.atomic import sync_folder, write_all, write_atomic
from mission_tui.records.files.storage import storing

__all__ = ["write_atomic_group"]

_UNABLE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
"""What a file system, or a kernel, says that has no files without a name; or there is no /proc."""


def write_atomic_group(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Make `folder`, with its parents if need be, hold the files of `contents` by name, durably; what was there under
    these names is replaced. Raises `StorageError`.
    """
    with storing(folder):
        try:
            _linked(folder, contents)
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
            make_folder(folder)
            for name, content in contents.items():
                write_atomic(folder / name, content)


def _linked(folder: Path, contents: Mapping[str, bytes]) -> None:
    with ExitStack() as stack:
        beside = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
        made = {name: stack.enter_context(_nameless(beside, content)) for name, content in contents.items()}
        mine = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, mine)
        make_folder(folder)
        for name, descriptor in made.items():
            _name(descriptor, mine, folder / name)
        sync_folder(folder)


@contextmanager
def _nameless(folder: Path, content: bytes) -> Iterator[int]:
    """A descriptor of a file in `folder`'s file system that holds `content`, durably, and has no name."""
    descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
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
