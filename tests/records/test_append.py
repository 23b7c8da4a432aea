"""The writing end: `seq` goes on, a torn tail is set aside, a refused write leaves nothing behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.records.files.append import BLOCK_BYTES, AppendLog
from mission_tui.records.files.atomic import StorageError
from mission_tui.records.files.tail import read_all
from tests.records.journal import paused, seqs, write_journal
from tests.records.limits import file_size_limit


def test_seq_rises_by_one_and_goes_on_after_reopening(tmp_path: Path) -> None:
    """The number of a record never restarts, whoever opens the file next."""
    path = tmp_path / "events.jsonl"
    write_journal(path, 3)
    log = AppendLog(path)
    assert (log.last_seq, log.torn) == (3, None)
    assert log.append(paused).seq == 4
    log.close()
    log.close()
    assert seqs(path) == [1, 2, 3, 4]


def test_what_another_wrote_since_is_counted_and_half_a_line_of_it_set_aside(tmp_path: Path) -> None:
    """An overtaken attempt writes on while the next one loads: no number is used twice, and no line grows together."""
    path = tmp_path / "metrics.jsonl"
    elder, newer = AppendLog(path), AppendLog(path)
    for _ in range(3):
        elder.append(paused)
    assert newer.append(paused).seq == 4
    with path.open("ab") as file:
        file.write(b'{"kind":"pau')
    assert newer.append(paused).seq == 5
    assert elder.append(paused).seq == 6
    elder.close()
    newer.close()
    assert seqs(path) == [1, 2, 3, 4, 5, 6]
    assert (tmp_path / "metrics.jsonl.torn-1").read_bytes() == b'{"kind":"pau'


def test_a_journal_cut_at_any_byte_keeps_every_whole_line(tmp_path: Path) -> None:
    """For every length a crash may leave: earlier records stay, the rest is set aside, and the next append is read."""
    path = tmp_path / "events.jsonl"
    whole = write_journal(path, 3)
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        kept = whole[:cut].count(b"\n")
        log = AppendLog(path, sync_every_s=3600.0)
        torn = whole[:cut].rpartition(b"\n")[2]
        assert (log.last_seq, log.torn) == (kept, torn or None), f"cut at byte {cut}"
        log.append(paused)
        log.close()
        assert read_all(path, FleetEvent) == ([paused(seq) for seq in range(1, kept + 2)], [])
        aside = tmp_path / "events.jsonl.torn-1"
        assert (aside.read_bytes() if torn else b"") == torn
        aside.unlink(missing_ok=True)


def test_a_flip_at_any_byte_costs_only_the_lines_it_touches(tmp_path: Path) -> None:
    """A flipped bit loses one record, two if it was the newline between them; the others stay and writing goes on."""
    path = tmp_path / "events.jsonl"
    whole = write_journal(path, 3)
    for index in range(len(whole)):
        flipped = bytearray(whole)
        flipped[index] ^= 0x04
        path.write_bytes(flipped)
        hit = whole[:index].count(b"\n") + 1
        lost = {hit, hit + 1} if whole[index] == ord("\n") else {hit}
        kept = [seq for seq in (1, 2, 3) if seq not in lost]
        log = AppendLog(path, sync_every_s=3600.0)
        log.close()
        assert seqs(path) == kept, f"flip at byte {index}"
        assert (log.last_seq, log.torn is not None) == (max(kept), 3 in lost)
        (tmp_path / "events.jsonl.torn-1").unlink(missing_ok=True)


def test_a_zeroed_tail_is_set_aside_under_the_next_free_name(tmp_path: Path) -> None:
    """Blocks that a power cut left as zeros are moved, newlines among them or not, beside what was moved before."""
    path = tmp_path / "events.jsonl"
    write_journal(path, 2)
    for number, tail in enumerate((b"\0" * 100, b"\0\n\0\0\n", b"\0" * BLOCK_BYTES * 2 + b"\n"), start=1):
        with path.open("ab") as file:
            file.write(tail)
        log = AppendLog(path)
        log.close()
        assert (log.last_seq, log.torn) == (2, tail)
        assert (tmp_path / f"events.jsonl.torn-{number}").read_bytes() == tail
    assert seqs(path) == [1, 2]


def test_a_file_of_garbage_is_set_aside_whole(tmp_path: Path) -> None:
    """If no line decodes, all of it is kept aside and numbering begins at one."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"not a journal\n" * 3)
    log = AppendLog(path)
    assert (log.last_seq, log.torn) == (0, b"not a journal\n" * 3)
    log.close()
    assert path.read_bytes() == b""


def test_opening_a_long_file_reads_only_its_end(tmp_path: Path) -> None:
    """`last_seq` of a file with a hole of 8 GiB before its last lines is known at once."""
    path = tmp_path / "events.jsonl"
    lines = write_journal(path, 2)
    with path.open("r+b") as file:
        file.truncate(8 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + lines)
    log = AppendLog(path)
    assert log.last_seq == 2
    log.close()


def test_a_refused_write_names_the_file_and_leaves_no_part(tmp_path: Path) -> None:
    """When the disk takes only half a line, the half is taken back and the same number is used later."""
    path = tmp_path / "events.jsonl"
    log = AppendLog(path)
    log.append(paused)
    size = path.stat().st_size
    with file_size_limit(size + 10), pytest.raises(StorageError, match=r"cannot append to .*events\.jsonl") as caught:
        log.append(paused)
    assert caught.value.errno == errno.EFBIG
    assert path.stat().st_size == size
    assert log.append(paused).seq == 2
    log.close()
    assert read_all(path, FleetEvent) == ([paused(1), paused(2)], [])


def test_after_a_failed_sync_the_log_goes_on_in_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record whose sync failed does not count; before the next one the suspect file is written anew."""
    path = tmp_path / "events.jsonl"
    log = AppendLog(path)
    log.append(paused)
    old = path.stat().st_ino

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", fail)
        patched.setattr(os, "fsync", fail)
        for _ in range(2):
            with pytest.raises(StorageError, match="copy the run directory to another"):
                log.append(paused)
        with pytest.raises(StorageError):
            log.sync()
    assert (seqs(path), log.last_seq) == ([1], 1)
    assert log.append(paused).seq == 2
    log.close()
    assert read_all(path, FleetEvent) == ([paused(1), paused(2)], [])
    assert path.stat().st_ino != old
    assert list(tmp_path.iterdir()) == [path]


def test_syncs_are_spaced_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an interval, a burst of appends syncs once; `sync` then covers the rest, and has nothing to do twice."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    log = AppendLog(tmp_path / "metrics.jsonl", sync_every_s=3600.0)
    for _ in range(5):
        log.append(paused)
    assert len(synced) == 1
    log.sync()
    log.sync()
    assert len(synced) == 2
    log.close()
    assert len(synced) == 2


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    """Opening in a missing folder raises the house's error, not a bare OSError."""
    with pytest.raises(StorageError, match="cannot open"):
        AppendLog(tmp_path / "absent" / "events.jsonl")


def test_a_close_that_fails_is_our_error_and_closes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a descriptor whose close failed may be somebody else's by the next call."""
    log = AppendLog(tmp_path / "events.jsonl")
    log.append(paused)
    closed: list[int] = []
    close = os.close

    def fail(descriptor: int) -> None:
        closed.append(descriptor)
        close(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", fail)
        with pytest.raises(StorageError, match=r"cannot close .*events\.jsonl"):
            log.close()
        log.close()
    assert len(closed) == 1


@pytest.mark.timeout(10)
def test_a_file_of_a_hundred_million_empty_lines_is_refused_at_once(tmp_path: Path) -> None:
    """It is none of ours; to look for a record in each of its lines would keep a supervisor from starting."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\n" * 100_000_000)
    with pytest.raises(StorageError, match="none of its last 10,000 lines is a record"):
        AppendLog(path)
    assert path.stat().st_size == 100_000_000
