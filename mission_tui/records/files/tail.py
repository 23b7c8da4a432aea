"""The reading end of a records file that may still be growing: whole valid lines come out once, in order.

A partial last line waits for its newline. Lines that fail their checksum are skipped and reported, never guessed at. A
file that shrank or was replaced is read again from its first line, and said so: a reader tells repeats by `seq`.
"""

from __future__ import annotations

import errno
import os
from io import BytesIO
from pathlib import Path
from typing import Any

from mission_tui.errors import DamagedError
from mission_tui.plain_files import open_plain
from mission_tui.records.files.lines import LINE_BYTES, decode_line, line_decoder

MARK_BYTES = 64
MOST_BYTES = 1 << 32
"""No file of records is longer: a million updates take a third of it."""

MOST_BAD_LINES = 10_000
"""After so many that are no records the rest of a file is passed over: to look at each of millions takes minutes."""


class Tail:
    """Follows one file. `damage` collects one sentence per incident; the caller clears it.

    `slice_bytes` is how much one `read` takes; `behind` says then whether there was more.
    """

    def __init__(self, path: Path, type_: Any, *, most: int = MOST_BYTES) -> None:
        self.path = path
        self.slice_bytes = most
        self.behind = False
        self._most = most
        self.damage: list[str] = []
        self._decode_line = line_decoder(type_)
        self._forget()

    def read(self) -> list[Any]:
        """Records whose lines were completed since the last call; empty while the file is absent. Raises `OSError`."""
        try:
            descriptor, status = open_plain(self.path)
        except FileNotFoundError:
            if self._offset:
                self.damage.append(f"{self.path.name} is gone; it held {self._offset} bytes")
                self._forget()
            return []
        try:
            return self._read(descriptor, status)
        finally:
            os.close(descriptor)

    def _forget(self) -> None:
        self._file_id: tuple[int, int] | None = None
        self._offset = 0
        self._mark = b""
        self._overlong = False
        self._bad_lines = 0

    def _read(self, descriptor: int, status: os.stat_result) -> list[Any]:
        file_id = (status.st_dev, status.st_ino)
        if status.st_size == self._offset and file_id == self._file_id:
            return []
        if status.st_size > self._most:
            number, at_most = f"it has {status.st_size:,} bytes", f"at most {self._most:,} are read"
            raise OSError(errno.EFBIG, f"{number}, and {at_most}", str(self.path))
        if self._offset and not self._same_file(descriptor, file_id):
            self.damage.append(f"{self.path.name} was cut short or replaced; reading it again from its first line")
            self._forget()
        self._file_id = file_id
        records: list[Any] = []
        bad: list[str] = []
        rest = ""
        read_to, enough = -1, self._offset + self.slice_bytes
        while read_to < self._offset < min(status.st_size, enough):
            read_to = self._offset
            news = os.pread(descriptor, min(LINE_BYTES, status.st_size - read_to), read_to)
            self._decode(BytesIO(news), records, bad, enough)
            if self._bad_lines > MOST_BAD_LINES:
                self._offset, self._mark, self._bad_lines = status.st_size, b"", 0
                rest = f", and the rest of its {status.st_size:,} bytes as well"
        self.behind = read_to < self._offset < status.st_size
        if bad:
            more = f" ({len(bad) - 1} more after it)" if len(bad) > 1 else ""
            self.damage.append(f"{bad[0]}; it was skipped{more}{rest}")
        return records

    def _same_file(self, descriptor: int, file_id: tuple[int, int]) -> bool:
        """Whether what was read last is still where it was: inode numbers come back, and a cut file may grow again."""
        if file_id != self._file_id:
            return False
        return os.pread(descriptor, len(self._mark), self._offset - len(self._mark)) == self._mark

    def _decode(self, news: BytesIO, records: list[Any], bad: list[str], enough: int) -> None:
        """Take the lines that end in `news`, which begins where the last line ended, until `enough` is passed."""
        while self._offset < enough and (line := news.readline(LINE_BYTES)):
            whole = line.endswith(b"\n")
            if not whole and len(line) < LINE_BYTES:
                break
            start, self._offset, self._mark = self._offset, self._offset + len(line), line[-MARK_BYTES:]
            overlong, self._overlong = self._overlong, not whole
            if overlong:
                continue
            if not whole:
                bad.append(f"{self.path.name} byte {start}: the line is longer than {LINE_BYTES} bytes")
                continue
            try:
                records.append(self._decode_line(line))
            except DamagedError as error:
                bad.append(f"{self.path.name} byte {start}: {error}")
                self._bad_lines += 1
                if self._bad_lines > MOST_BAD_LINES:
                    return


def read_all(path: Path, type_: Any, most: int = MOST_BYTES) -> tuple[list[Any], list[str]]:
    """Every valid record of `path` and a sentence per incident of damage. An absent file has neither.

    Raises `OSError` for a file of more than `most` bytes, of which nothing is read.
    """
    tail = Tail(path, type_, most=most)
    return tail.read(), tail.damage


def read_newest(path: Path, type_: Any, max_bytes: int = 262144) -> list[Any]:
    """Valid records among the last `max_bytes` of `path`, oldest first; a line cut by that window does not count.

    Damaged lines are passed over in silence: `read_newest_whole`, `Tail` and `read_all` are the readers that report
    them.
    """
    return read_newest_whole(path, type_, max_bytes)[0]


def read_newest_whole(path: Path, type_: Any, max_bytes: int) -> tuple[list[Any], bool]:
    """As `read_newest`, and whether each whole line that was looked at is a record. A last line that was not written
    to its end is what a writer that was killed leaves.
    """
    try:
        with os.fdopen(open_plain(path)[0], "rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - max_bytes)
            file.seek(start)
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return [], True
    records, whole, decode = [], True, line_decoder(type_)
    for line in lines[1 if start else 0 : -1]:
        try:
            records.append(decode(line))
        except DamagedError:
            whole = False
    return records, whole


def read_first(path: Path, type_: Any) -> Any:
    """The record on the first line of `path`; None where there is none, or it is damaged."""
    try:
        with os.fdopen(open_plain(path)[0], "rb") as file:
            return decode_line(file.readline(LINE_BYTES), type_)
    except (OSError, DamagedError):
        return None
