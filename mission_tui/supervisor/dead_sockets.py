"""Sockets that nobody serves: stray ones in our own folder, and folders of runs roots that no longer exist.

A folder says in its file `root` which runs root it belongs to; one that does not say is left alone.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mission_tui.paths import socket_dir

__all__ = ["DeadSocket", "find_dead_sockets", "name_root", "remove_dead_socket", "sweep_vanished_roots", "unname_root"]

_ROOT = "root"


@dataclass(frozen=True, slots=True)
class DeadSocket:
    """A socket in the folder of a runs root at which nobody listens."""

    path: Path
    age_s: float

    @property
    def key(self) -> str:
        return f"socket:{self.path}"


def name_root(root: Path) -> None:
    """Say in the socket folder of `root` whose it is."""
    (socket_dir(root) / _ROOT).write_bytes(os.fsencode(root))


def unname_root(root: Path) -> None:
    """Remove the socket folder of `root` if nothing else is in it."""
    folder = socket_dir(root)
    with suppress(OSError):
        (folder / _ROOT).unlink()
        folder.rmdir()


def find_dead_sockets(root: Path) -> list[DeadSocket]:
    """Dead sockets in the folder of `root`, by path; those of its own supervisor are alive."""
    found = []
    for path in sorted(socket_dir(root).glob("*")):
        with suppress(OSError):
            status = path.lstat()
            if stat.S_ISSOCK(status.st_mode) and not _listens(path):
                found.append(DeadSocket(path, max(0.0, time.time() - status.st_mtime)))
    return found


def remove_dead_socket(dead: DeadSocket) -> bool:
    """Remove the socket if it is still dead."""
    if _listens(dead.path):
        return False
    try:
        dead.path.unlink()
    except OSError:
        return False
    return True


def sweep_vanished_roots() -> list[str]:
    """Remove the socket folders of runs roots that are gone: nobody can come back to them. Their roots, by name."""
    swept = []
    everyone = socket_dir(Path("/")).parent
    for folder in sorted(everyone.iterdir()) if everyone.is_dir() else ():
        with suppress(OSError):
            status = folder.lstat()
            root = os.fsdecode((folder / _ROOT).read_bytes())
            ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
            if ours and not Path(root).exists() and not any(map(_listens, folder.glob("*.sock"))):
                shutil.rmtree(folder)
                swept.append(root)
    return swept


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            return False
    return True
