"""Unix sockets that belong to us: their folder (0700, ours, no symlink), their path, and who is at the other end.

Nobody else may be behind a path that we trust: the folder lies in a place where everyone can create files.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path

from mission_tui.errors import NoSupervisorError

OPERATOR_SOCKET = "operator.sock"
TELEMETRY_SOCKET = "telemetry.sock"
MAX_PATH_BYTES = 107
BACKLOG = 128
CREDENTIALS = struct.Struct("3i")


def prepare_socket_dir(path: Path) -> None:
    """Make `path` and its parent, each a folder that only we can enter; what is there already must be ours.

    Raises `NoSupervisorError` when someone else has put something in the way.
    """
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    for folder in (path.parent, path):
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            _check_ours(folder)
        folder.chmod(0o700)


def is_private(folder: Path) -> bool:
    """Whether `folder` and its parent are folders that only we can enter."""
    try:
        both = folder.lstat(), folder.parent.lstat()
    except OSError:
        return False
    return all(
        stat.S_ISDIR(facts.st_mode) and stat.S_IMODE(facts.st_mode) == 0o700 and facts.st_uid == os.getuid()
        for facts in both
    )


def _check_ours(folder: Path) -> None:
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode):
        raise NoSupervisorError(f"{folder} is not a folder: remove it, it stands where the sockets belong")
    if facts.st_uid != os.getuid():
        raise NoSupervisorError(
            f"{folder} belongs to user {facts.st_uid}, not to you: have it removed, it stands where the sockets belong"
        )


def bind(path: Path) -> socket.socket:
    """A listening socket at `path`, in place of a stale one; the caller must be the only server of its folder."""
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise NoSupervisorError(f"{path} is too long for a socket: at most {MAX_PATH_BYTES} bytes")
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def connect(path: Path, timeout_s: float | None) -> socket.socket:
    """A connection to the server at `path`. Raises `OSError` when none listens or what listens is not ours."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(os.fspath(path))
        if peer(connection)[1] != os.getuid():
            raise PermissionError(f"{path} is served by another user")
    except OSError:
        connection.close()
        raise
    return connection


def peer(connection: socket.socket) -> tuple[int, int]:
    """Process id and user id of the other end, as they were when it connected (or began to listen)."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, uid, _ = CREDENTIALS.unpack(credentials)
    return pid, uid
