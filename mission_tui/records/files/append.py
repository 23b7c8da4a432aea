"""An append-only file of records with one writer: `seq` rises by one, and what was acknowledged is on the disk.

Opening looks only at the end of the file. Whatever follows the last whole line is set aside in `<name>.torn-<n>` and
cut off; everything earlier stays as it is. The same is done again where the file has grown under another hand: that of
an attempt on another host, which nobody sees any more and which has not seen yet that it was overtaken.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from mission_tui.errors import DamagedError
from mission_tui.plain_files import open_fresh, open_plain, open_to_append
from mission_tui.records.files.atomic import storing, sync_folder, write_all, write_atomic
from mission_tui.records.files.lines import decode_line, encode_line

BLOCK_BYTES = 1 << 16
MOST_TAIL_BYTES = 1 << 28
MOST_TAIL_LINES = 10_000
"""Where there is no whole record in so many bytes or lines, the file is none of ours; half a line is never so long."""

Record = TypeVar("Record", bound=msgspec.Struct)


class _Numbered(msgspec.Struct):
    """What every record of an append-only file has."""

    seq: int


class AppendLog:
    """The writing end of one records file. Only one may be open per file; the run's lease sees to that."""

    def __init__(self, path: Path, *, sync_every_s: float = 0.0) -> None:
        """Open or create `path`. `sync_every_s` 0 makes every append durable before it returns."""
        self.path = path
        self.last_seq = 0
        self.torn: bytes | None = None
        self._sync_every_s = sync_every_s
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
                if time.monotonic() - self._synced_at >= self._sync_every_s:
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
        try:
            os.fdatasync(self._descriptor)
        except OSError:
            self._suspect = True
            raise
        self._dirty = False
        self._synced_at = time.monotonic()

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
