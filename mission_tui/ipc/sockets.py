"""Unix sockets that belong to us: their folder (0700, ours, no symlink), their path, and who is at the other end; and
lines on them: one JSON object a line, a cap on its length, and one typed error for whatever is not that.

Nobody else may be behind a path that we trust: the folder lies in a place where everyone can create files. Both ends
use this and nothing else to turn messages into bytes and back, so a hostile line fails in one place.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path
from typing import TypeVar

import msgspec

from mission_tui.errors import EX_UNAVAILABLE, NoSupervisorError, ProtocolError

PROTOCOL = 1
"""Of both sockets; here, where a trainer loads no more for it."""
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
    if facts.st_uid != os.getuid():
        raise NoSupervisorError(
            f"{folder} belongs to user {facts.st_uid}, not to you: have it removed, it stands where the sockets belong"
        )
    if not stat.S_ISDIR(facts.st_mode):
        raise NoSupervisorError(f"{folder} is not a folder: remove it, it stands where the sockets belong")


def bind(path: Path) -> socket.socket:
    """A listening socket at `path`, in place of a stale one; the caller must be the only server of its folder.

    Raises `NoSupervisorError` for a path that is too long.
    """
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


T = TypeVar("T")

REPLY_LINE_BYTES = 8 << 20
"""Cap of a line from supervisor to client: 200 ended runs with their series take about a megabyte."""

SNAPSHOT_LINE_BYTES = 32 << 20
"""What a client takes: a thousand live runs with their series take five megabytes, and with findings more."""


NO_MESSAGE = "not a message of this protocol"
"""How a complaint about a line begins that one side sent and the other cannot read."""


class MalformedError(ProtocolError):
    """A line that is not a message of this plane."""


class TooLargeError(ProtocolError):
    """A line longer than its plane allows."""


class WrongVersionError(ProtocolError):
    """The other side speaks another version of the protocol."""

    exit_code = EX_UNAVAILABLE


class ConnectionLostError(ProtocolError):
    """The other side went away before it had said everything."""

    exit_code = EX_UNAVAILABLE


def encode(message: msgspec.Struct) -> bytes:
    """`message` as one line, newline included. Raises `MalformedError` for text that UTF-8 cannot carry."""
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError as error:
        name = type(message).__name__
        raise MalformedError(f"{name} holds text that is not valid Unicode: {error.reason}") from error


def decode(line: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The message in `line`. Raises `MalformedError` for anything else: bad JSON, wrong types, deep nesting."""
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedError(f"{NO_MESSAGE}: {error}") from error
    except RecursionError as error:
        raise MalformedError(f"{NO_MESSAGE}: nested too deeply") from error


class LineReader:
    """Cuts a byte stream into lines. Memory is bounded by `limit` plus what one `feed` brings."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    @property
    def partial(self) -> bool:
        """Whether the beginning of a line waits for its end."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Complete lines, without their newline, in order. Raises `TooLargeError` once a line passes the limit."""
        if b"\n" not in data:
            self._buffer += data
            lines: list[bytes] = []
        else:
            *lines, rest = (bytes(self._buffer) + data).split(b"\n")
            self._buffer = bytearray(rest)
        for line in (*lines, self._buffer):
            if len(line) > self._limit:
                raise TooLargeError(f"a line is longer than {self._limit} bytes")
        return lines
