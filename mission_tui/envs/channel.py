"""What the trainer and an env worker say to each other: a kind of one byte, and a payload only where there is one.

Both ends are processes of the same run that trust each other, so payloads are pickled. Everything that is said at every
step (actions, observations, rewards) goes through shared memory instead. The first payload is what the worker is given
to do; an exception is told with its environment.
"""

from __future__ import annotations

import pickle
import socket
import struct
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mission_tui.envs.env_recipe import EnvRecipe
from mission_tui.envs.shared_memory import Layout
from mission_tui.errors import raised_by

BEGIN, STEP, CALL, FORM, QUIT = b"a", b"s", b"c", b"f", b"q"
"""The first message brings the assignment; then: step all lanes, call something in some of them, learn the form of the
actions that follow, close and leave.
"""
DONE, ERROR = b"d", b"e"
"""The answers: what was asked is done (the payload is its result), or something was raised."""

_HEADER = struct.Struct("=cQ")
_TIMEVAL = struct.Struct("@ll")
_READ = 1 << 14


def frame(kind: bytes, content: Any = None) -> bytes:
    """The bytes of one message. Whatever cannot be pickled raises here, before anything is on its way."""
    payload = b"" if content is None else pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    return _HEADER.pack(kind, len(payload)) + payload


class Channel:
    """One end of a stream socket; with `slice_s`, `receive` looks up that often while nothing comes."""

    def __init__(self, end: socket.socket, slice_s: float | None = None) -> None:
        self._end, self._held = end, b""
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
        self._hold(_HEADER.size, silent)
        kind, size = _HEADER.unpack_from(self._held)
        end = _HEADER.size + size
        self._hold(end, silent)
        payload, self._held = self._held[_HEADER.size : end], self._held[end:]
        return kind, pickle.loads(payload) if size else None  # noqa: S301 - from our own child or parent

    def close(self) -> None:
        """Let go of this end; the other side reads the end of the stream."""
        self._end.close()

    def _hold(self, size: int, silent: Callable[[], None] | None) -> None:
        """Read until `size` bytes are held; one read brings a whole message unless it is large."""
        if len(self._held) >= size:
            return
        parts, there = [self._held], len(self._held)
        while there < size:
            part = self._part(max(_READ, size - there), silent)
            parts.append(part)
            there += len(part)
        self._held = b"".join(parts)

    def _part(self, most: int, silent: Callable[[], None] | None) -> bytes:
        while True:
            try:
                part = self._end.recv(most)
            except BlockingIOError:
                if silent is not None:
                    silent()
                continue
            except ConnectionResetError as error:
                raise EOFError from error
            if not part:
                raise EOFError
            return part


@dataclass(frozen=True, slots=True)
class Assignment:
    """Worker `index` makes and steps the environments `first` to `behind` - 1; `memory` is a descriptor it inherited.

    `path` is the trainer's module search path: what could be imported there can be imported here.
    """

    recipe: EnvRecipe
    layout: Layout
    memory: int
    index: int
    first: int
    behind: int
    n_envs: int
    all_infos: bool
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception in environment `env`: a sentence, the traceback as text, and itself where it can be pickled."""

    env: int
    sentence: str
    text: str
    error: BaseException | None

    @classmethod
    def of(cls, error: BaseException, env: int) -> Raised:
        """What there is to tell of `error`."""
        text = "".join(traceback.format_exception(error))
        return cls(env, raised_by(error), text, error if _travels(error) else None)


def _travels(error: BaseException) -> bool:
    try:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made in the same line
    except Exception:  # noqa: BLE001 - an exception is foreign code, and so is what pickling it runs
        return False
    return type(copy) is type(error)
