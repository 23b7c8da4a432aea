"""Files of records, one a line: JSON objects with a checksum, appended by one writer, and read while they grow or as
they were at a moment.

The last key `crc` of a line is the CRC-32 of the raw bytes before it, in eight lowercase hex digits, so `jq` still
reads the line, and a line that was cut, flipped or zeroed never decodes.

Writing: `seq` rises by one, and what was acknowledged is on the disk. Opening looks only at the end of the file.
Whatever follows the last whole line is set aside in `<name>.torn-<n>` and cut off; everything earlier stays as it is.
The same is done again where the file has grown under another hand: that of an attempt on another host, which nobody
sees any more and which has not seen yet that it was overtaken.

Reading (`Tail`): whole valid lines come out once, in order. A partial last line waits for its newline. Lines that fail
their checksum are skipped and reported, never guessed at. A file that shrank or was replaced is read again from its
first line, and said so: a reader tells repeats by `seq`.

`RecordsUntil` knows how many records had been written by a moment (unix seconds), and reads any stretch of them. The
file is looked through once, when it is opened; of its lines only their ends and moments are kept, and what is written
to it afterwards is not seen. A line was written no later than the lines after it, whatever a clock that was set back
says.
"""

from __future__ import annotations

import errno
import os
import time
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from mission_tui.errors import DamagedError
from mission_tui.plain_files import open_fresh, open_plain, open_to_append
from mission_tui.records.atomic import storing, sync_folder, write_all, write_atomic

LINE_BYTES = 1 << 20
"""No record is longer; a reader gives up on a line that passes this instead of buffering it."""

TRAILER = len(b',"crc":"00000000"}')

SHOWN_BYTES = 1 << 30
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
            while place < SHOWN_BYTES and (line := file.readline(LINE_BYTES)):
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


BLOCK_BYTES = 1 << 16
MOST_TAIL_BYTES = 1 << 28
SLOW_TIMES, LONGEST_UNSYNCED_S = 20.0, 60.0
"""On a slow disk the next sync waits so many times as long as the last one took, and no longer than that: a writer that
has something else to do, such as to train, would wait for the disk most of its time.
"""
MOST_TAIL_LINES = 10_000
"""Where there is no whole record in so many bytes or lines, the file is none of ours; half a line is never so long."""

Record = TypeVar("Record", bound=msgspec.Struct)


class _Numbered(msgspec.Struct):
    """What every record of an append-only file has."""

    seq: int


class AppendLog:
    """The writing end of one records file. Only one may be open per file; the run's lease sees to that."""

    def __init__(self, path: Path, *, sync_every_s: float = 0.0) -> None:
        """Open or create `path`. `sync_every_s` 0 makes every append durable before it returns; else it is later where
        the disk is slow.
        """
        self.path = path
        self.last_seq = 0
        self.torn: bytes | None = None
        self._sync_every_s = self._sync_after_s = sync_every_s
        self._synced_at = float("-inf")
        self._dirty = False
        self._suspect = False
        self._end = 0
        with storing(path, "open"):
            self._descriptor = _open_for_append(path)
        try:
            with storing(path, "open"):
                self._set_torn_tail_aside()
                sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
                os.close(self._descriptor)
            raise

    def append(self, make: Callable[[int], Record]) -> Record:
        """Write the record that `make` builds for the next `seq` and return it.

        Raises `StorageError` when the disk refuses; the file is then as before and the same `seq` comes next.
        """
        if self._suspect:
            self._renew()
        with storing(self.path, "append to"):
            if os.fstat(self._descriptor).st_size != self._end:
                self._set_torn_tail_aside()
            size = self._end
            record = make(self.last_seq + 1)
            line = encode_line(record)
            try:
                write_all(self._descriptor, line)
                self._dirty = True
                if time.monotonic() - self._synced_at >= self._sync_after_s:
                    self._sync()
            except OSError:
                # Half a line would swallow the next record; if the cut fails too, the next opening sets it aside.
                with suppress(OSError):
                    os.ftruncate(self._descriptor, size)
                raise
        self.last_seq += 1
        self._end = size + len(line)
        return record

    def sync(self) -> None:
        """Make everything appended so far durable. Raises `StorageError`."""
        if self._suspect:
            self._renew()
        if self._dirty:
            with storing(self.path, "sync"):
                self._sync()

    def close(self) -> None:
        """Sync and close; a second call does nothing. Raises `StorageError`; closed it is all the same."""
        if self._descriptor < 0:
            return
        try:
            self.sync()
        finally:
            # Forgotten first: after a failed close the number is free, and a second one would close somebody else's.
            descriptor, self._descriptor = self._descriptor, -1
            with storing(self.path, "close"):
                os.close(descriptor)

    def _sync(self) -> None:
        began = time.monotonic()
        try:
            os.fdatasync(self._descriptor)
        except OSError:
            self._suspect = True
            raise
        self._dirty = False
        self._synced_at = time.monotonic()
        if self._sync_every_s > 0.0:
            slow_s = min(LONGEST_UNSYNCED_S, SLOW_TIMES * (self._synced_at - began))
            self._sync_after_s = max(self._sync_every_s, slow_s)

    def _renew(self) -> None:
        """Write everything to a new file: after a failed sync the kernel counts the lost bytes of the old one as clean,
        so that a second sync would succeed and prove nothing.
        """
        with storing(self.path, "write anew"):
            write_atomic(self.path, _read_span(self._descriptor, 0, os.fstat(self._descriptor).st_size))
            old, self._descriptor = self._descriptor, _open_for_append(self.path)
            os.close(old)
        self._dirty = self._suspect = False

    def _set_torn_tail_aside(self) -> None:
        size = os.fstat(self._descriptor).st_size
        good_end, found = _last_whole_line(self._descriptor, size)
        self.last_seq = max(self.last_seq, found)
        self._end = good_end
        if good_end == size:
            return
        self.torn = _read_span(self._descriptor, good_end, size)
        write_atomic(_free_torn_name(self.path), self.torn)
        os.ftruncate(self._descriptor, good_end)
        os.fsync(self._descriptor)


def _open_for_append(path: Path) -> int:
    """The descriptor of `path`, created if it does not exist; what is no plain file of ours is refused."""
    try:
        return open_to_append(path)
    except OSError as error:
        if error.errno != errno.EMLINK:
            raise
    _part_from_other_names(path)
    return open_to_append(path)


def _part_from_other_names(path: Path) -> None:
    """Give `path` bytes of its own: no copy made of hard links, and no file elsewhere, is to grow with it."""
    descriptor = open_plain(path)[0]
    try:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        copy = open_fresh(temporary)
        try:
            place = 0
            while part := os.pread(descriptor, 1 << 20, place):
                write_all(copy, part)
                place += len(part)
            os.fsync(copy)
        finally:
            os.close(copy)
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        os.close(descriptor)


def _free_torn_name(path: Path) -> Path:
    """The first `<name>.torn-<n>` that is not taken."""
    number = 1
    while (torn := path.with_name(f"{path.name}.torn-{number}")).exists():
        number += 1
    return torn


def _read_span(descriptor: int, start: int, end: int) -> bytes:
    """The bytes from `start` to `end`, fewer if the file ends before."""
    parts = []
    while start < end and (part := os.pread(descriptor, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _last_whole_line(descriptor: int, size: int) -> tuple[int, int]:
    """Where the last line that decodes ends, and its `seq`; (0, 0) if there is none. Looks at no more than it must."""
    window, looked = BLOCK_BYTES, 0
    while True:
        start = max(0, size - window)
        tail = _read_span(descriptor, start, size)
        end = tail.rfind(b"\n")
        while end >= 0:
            begin = tail.rfind(b"\n", 0, end) + 1
            # What precedes the window's first newline may be the rest of a line, unless the window starts the file.
            seq = _seq_of(tail[begin:end]) if begin or not start else None
            if seq is not None:
                return start + end + 1, seq
            looked += 1
            if looked > MOST_TAIL_LINES:
                raise OSError(errno.EFBIG, f"none of its last {MOST_TAIL_LINES:,} lines is a record")
            end = begin - 1
        if not start:
            return 0, 0
        window *= 4
        if window > MOST_TAIL_BYTES:
            raise OSError(errno.EFBIG, f"there is no whole record in its last {MOST_TAIL_BYTES:,} bytes")


def _seq_of(line: bytes) -> int | None:
    """The `seq` of a whole line, None for a damaged one."""
    try:
        numbered: _Numbered = decode_line(line, _Numbered)
    except DamagedError:
        return None
    return numbered.seq


MARK_BYTES = 64
SLICE_BYTES = 1 << 20
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

    def each(self) -> Iterator[Any]:
        """The same one after another, of which no more than a slice is in memory at once. Raises `OSError`."""
        self.slice_bytes = min(self.slice_bytes, SLICE_BYTES)
        yield from self.read()
        while self.behind:
            yield from self.read()

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


def each_record(path: Path, type_: Any) -> Iterator[Any]:
    """The records of `read_all` one after another, of which no more than a slice is in memory at once: those of a
    million updates would take gigabytes. Damage is passed over in silence. Raises `OSError` as it does.
    """
    yield from Tail(path, type_).each()


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
