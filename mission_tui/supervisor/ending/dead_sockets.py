"""Sockets that nobody serves: stray ones in our own folder, and whole folders that no supervisor will come back to.

A folder says which runs root it belongs to; one that does not say is left alone. That of a root that still exists goes
when nobody has listened there for an hour: its next supervisor makes it again.
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

from mission_tui.ipc.roots import named_root, socket_folders
from mission_tui.paths import socket_dir

__all__ = ["DeadSocket", "find_dead_sockets", "remove_dead_socket", "sweep_socket_folders"]

FORGOTTEN_S = 3600.0


@dataclass(frozen=True, slots=True)
class DeadSocket:
    """A socket in the folder of a runs root at which nobody listens."""

    path: Path
    age_s: float

    @property
    def key(self) -> str:
        return f"socket:{self.path}"


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


def sweep_socket_folders(own: Path) -> list[str]:
    """Remove the socket folders of runs roots that are gone or forgotten, never that of `own`. Their roots, by name."""
    swept = []
    for folder in socket_folders():
        root = named_root(folder)
        if root is None or folder == socket_dir(own):
            continue
        with suppress(OSError):
            # Whoever begins to listen there, or has just left, has changed the folder.
            forgotten = time.time() - folder.lstat().st_mtime > FORGOTTEN_S
            if (forgotten or not root.exists()) and not any(map(_listens, folder.glob("*.sock"))):
                shutil.rmtree(folder)
                swept.append(str(root))
    return swept


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            return False
    return True
