"""A records file as it was: how many of its records had been written by a moment, and any stretch of them.

The file is looked through once, when it is opened; of its lines only their ends and moments are kept. What is written
to it afterwards is not seen.

Moments are unix seconds. A line was written no later than the lines after it, whatever a clock that was set back says.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from mission_tui.errors import DamagedError
from mission_tui.plain_files import open_plain
from mission_tui.records.files.lines import LINE_BYTES, decode_line

MOST_BYTES = 1 << 30
"""Of a longer file only so much is shown."""


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
