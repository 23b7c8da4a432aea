"""One record, one line: a JSON object whose last key `crc` is the CRC-32 of the bytes before it.

The checksum is eight lowercase hex digits over the raw bytes before `,"crc"`, so `jq` still reads the line, and a line
that was cut, flipped or zeroed never decodes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from mission_tui.errors import DamagedError

LINE_BYTES = 1 << 20
"""No record is longer; a reader gives up on a line that passes this instead of buffering it."""

TRAILER = len(b',"crc":"00000000"}')


def encode_line(record: msgspec.Struct) -> bytes:
    """`record` as one line with its checksum and newline."""
    body = msgspec.json.encode(record)[:-1]
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


def decode_line(raw: bytes, type_: Any) -> Any:
    """The `type_` (a Struct or a union of them) in line `raw`, with or without its newline.

    Raises `DamagedError` when the checksum is absent or wrong, or when the object is not a `type_`.
    """
    return line_decoder(type_)(raw)


@lru_cache(maxsize=32)
def line_decoder(type_: Any) -> Callable[[bytes], Any]:
    """`decode_line` of many lines of one type. Making it costs more than decoding a line."""
    decode = msgspec.json.Decoder(type_).decode

    def decode_line_of(raw: bytes) -> Any:
        line = raw.removesuffix(b"\n")
        if line[-TRAILER:] != b',"crc":"%08x"}' % zlib.crc32(line[:-TRAILER]):
            raise DamagedError("the line does not match its checksum")
        try:
            return decode(line)
        except (ValueError, RecursionError) as error:
            raise DamagedError(f"the line is whole but not a record of this version: {error}") from error

    return decode_line_of
