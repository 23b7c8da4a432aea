"""What the trainer and an env worker say to each other: a kind of one byte, and a payload only where there is one.

Both ends are processes of the same run that trust each other, so payloads are pickled. Everything that is said at
every step (actions, observations, rewards) goes through shared memory instead.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Callable
from typing import Any

__all__ = ["CALL", "DONE", "ERROR", "FORM", "QUIT", "STEP", "Channel", "frame"]

STEP, CALL, FORM, QUIT = b"s", b"c", b"f", b"q"
"""Step all lanes, call something in some of them, learn the form of the actions that follow, close and leave."""
DONE, ERROR = b"d", b"e"
"""The answers: what was asked is done (the payload is its result), or something was raised."""

_HEADER = struct.Struct("=cQ")
_TIMEVAL = struct.Struct("@ll")


def frame(kind: bytes, content: Any = None) -> bytes:
    """The bytes of one message. Whatever cannot be pickled raises here, before anything is on its way."""
    payload = b"" if content is None else pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    return _HEADER.pack(kind, len(payload)) + payload


class Channel:
    """One end of a stream socket; with `slice_s`, `receive` looks up that often while nothing comes."""

    def __init__(self, end: socket.socket, slice_s: float | None = None) -> None:
        self._end = end
        if slice_s is not None:
            # The kernel's own time-out: Python's would add a poll to every receive.
            whole = int(slice_s)
            timeval = _TIMEVAL.pack(whole, int((slice_s - whole) * 1e6))
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)

    def send(self, message: bytes) -> None:
        """Send what `frame` made. Raises `OSError` when the other side is gone."""
        self._end.sendall(message)

    def receive(self, silent: Callable[[], None] | None = None) -> tuple[bytes, Any]:
        """The next message; `silent` is called after every slice without a byte and may raise.

        Raises `EOFError` when the other side is gone.
        """
        kind, size = _HEADER.unpack(self._exactly(_HEADER.size, silent))
        if not size:
            return kind, None
        return kind, pickle.loads(self._exactly(size, silent))  # noqa: S301 - from our own child or parent

    def close(self) -> None:
        """Let go of this end; the other side reads the end of the stream."""
        self._end.close()

    def _exactly(self, size: int, silent: Callable[[], None] | None) -> bytes | bytearray:
        first = self._part(size, silent)
        if len(first) == size:
            return first
        whole = bytearray(first)
        while len(whole) < size:
            whole += self._part(size - len(whole), silent)
        return whole

    def _part(self, size: int, silent: Callable[[], None] | None) -> bytes:
        while True:
            try:
                part = self._end.recv(size)
            except BlockingIOError:
                if silent is not None:
                    silent()
                continue
            except ConnectionResetError as error:
                raise EOFError from error
            if not part:
                raise EOFError
            return part
