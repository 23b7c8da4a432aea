"""Lines on a socket: one JSON object a line, a cap on its length, and one typed error for whatever is not that.

Both ends use this and nothing else to turn messages into bytes and back, so a hostile line fails in one place.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from mission_tui.errors import EX_UNAVAILABLE, ProtocolError

T = TypeVar("T")

REPLY_LINE_BYTES = 8 << 20
"""Cap of a line from supervisor to client: 200 ended runs with their series take about a megabyte."""

SNAPSHOT_LINE_BYTES = 32 << 20
"""What a client takes: a thousand live runs with their series take five megabytes, and with findings more."""


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
        raise MalformedError(f"not a message of this protocol: {error}") from error
    except RecursionError as error:
        raise MalformedError("not a message of this protocol: nested too deeply") from error


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
