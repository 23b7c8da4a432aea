"""One record, one line: a JSON object whose last key `crc` is the CRC-32 of the bytes before it. And a file of such
lines as it was at a moment.

The checksum is eight lowercase hex digits over the raw bytes before `,"crc"`, so `jq` still reads the line, and a line
that was cut, flipped or zeroed never decodes.

`RecordsUntil` knows how many records had been written by a moment (unix seconds), and reads any stretch of them. The
file is looked through once, when it is opened; of its lines only their ends and moments are kept, and what is written
to it afterwards is not seen. A line was written no later than the lines after it, whatever a clock that was set back
says.
"""

from __future__ import annotations

import os
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from mission_tui.errors import DamagedError
from mission_tui.plain_files import open_plain

LINE_BYTES = 1 << 20
"""No record is longer; a reader gives up on a line that passes this instead of buffering it."""

TRAILER = len(b',"crc":"00000000"}')

MOST_BYTES = 1 << 30
"""Of a longer file only so much is shown."""


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


class _Stamp(Struct, frozen=True):
    t: float


class RecordsUntil:
    """The valid lines of `path`, which are records of `type_`; damaged ones are passed over.

    A file that is absent or cannot be opened has none.
    """

    def __init__(self, path: Path, type_: Any) -> None:
        self._path = path
        self._type = type_
        self._ends = array("q", [0])
        times = array("d")
        with suppress(OSError), os.fdopen(open_plain(path)[0], "rb") as file:
            place = 0
            while place < MOST_BYTES and (line := file.readline(LINE_BYTES)):
                place += len(line)
                with suppress(DamagedError):
                    times.append(decode_line(line, _Stamp).t)
                    self._ends.append(place)
        self._index = TimeIndex(times)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def count_until(self, moment: float) -> int:
        """How many records had been written by `moment`."""
        return self._index.count_until(moment)

    def read(self, start: int, end: int) -> list[Any]:
        """The records `start..end-1`, counted from 0; fewer when the file holds something else by now.

        Raises `OSError` when it cannot be read any more.
        """
        start, end = max(0, start), min(end, len(self))
        if end <= start:
            return []
        records = []
        with os.fdopen(open_plain(self._path)[0], "rb") as file:
            file.seek(self._ends[start])
            lines = file.read(self._ends[end] - self._ends[start]).split(b"\n")
        for line in lines[:-1]:
            with suppress(DamagedError):
                records.append(decode_line(line, self._type))
        return records


class TimeIndex:
    """When each line of a file was written, from the `t` of its lines in their order."""

    def __init__(self, times: Iterable[float]) -> None:
        rising = array("d", times)
        for at in range(len(rising) - 2, -1, -1):
            rising[at] = min(rising[at], rising[at + 1])
        self._t = rising

    def count_until(self, moment: float) -> int:
        """How many lines had been written."""
        return bisect_right(self._t, moment)
