"""The reading end: each record once, in order; damage is skipped and told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.records.files.append import AppendLog
from mission_tui.records.files.lines import LINE_BYTES, encode_line
from mission_tui.records.files.tail import Tail, read_all, read_newest
from mission_tui.records.runs.attempt import read_exit
from tests.records.journal import paused, seqs, write_journal


def test_an_absent_file_has_nothing_to_say(tmp_path: Path) -> None:
    """Before the first line there are no records and no damage, from any reader."""
    path = tmp_path / "events.jsonl"
    tail = Tail(path, FleetEvent)
    assert (tail.read(), tail.damage) == ([], [])
    assert read_all(path, FleetEvent) == ([], [])
    assert read_newest(path, FleetEvent) == []


def test_each_record_comes_out_once(tmp_path: Path) -> None:
    """Successive reads give what was appended between them."""
    path = tmp_path / "events.jsonl"
    tail = Tail(path, FleetEvent)
    log = AppendLog(path)
    for _ in range(3):
        log.append(paused)
        assert tail.read() == [paused(log.last_seq)]
        assert tail.read() == []
    log.close()
    assert tail.damage == []


def test_a_growing_line_waits_for_its_newline(tmp_path: Path) -> None:
    """However the writer's bytes arrive, a record appears exactly when its newline does."""
    path = tmp_path / "events.jsonl"
    whole = encode_line(paused(1)) + encode_line(paused(2))
    tail = Tail(path, FleetEvent)
    found = []
    for end in range(1, len(whole) + 1):
        path.write_bytes(whole[:end])
        found += tail.read()
        assert len(found) == whole[:end].count(b"\n")
    assert (found, tail.damage) == ([paused(1), paused(2)], [])


def test_damaged_lines_are_skipped_and_reported_once(tmp_path: Path) -> None:
    """One sentence names file, place and number of the damaged lines; the records around them come out."""
    path = tmp_path / "events.jsonl"
    lines = [encode_line(paused(seq)) for seq in range(1, 6)]
    path.write_bytes(lines[0] + b"garbage\n" + lines[1][:-5] + b"\n" + lines[2])
    tail = Tail(path, FleetEvent)
    assert tail.read() == [paused(1), paused(3)]
    assert tail.damage == [
        f"events.jsonl byte {len(lines[0])}: the line does not match its checksum; it was skipped (1 more after it)"
    ]
    tail.damage.clear()
    assert (tail.read(), tail.damage) == ([], [])


def test_an_endless_line_is_given_up(tmp_path: Path) -> None:
    """A line longer than any record is reported once, not kept in memory, and ends at its newline."""
    path = tmp_path / "events.jsonl"
    tail = Tail(path, FleetEvent)
    with path.open("wb", buffering=0) as file:
        for _ in range(3):
            file.write(b"x" * LINE_BYTES)
            assert tail.read() == []
        assert len(tail.damage) == 1
        assert "longer than" in tail.damage[0]
        file.write(b"x\n" + encode_line(paused(1)))
        assert tail.read() == [paused(1)]
    assert len(tail.damage) == 1


def test_a_file_that_shrank_is_read_again(tmp_path: Path) -> None:
    """After a cut the valid lines come again from the first, and the reader says so."""
    path = tmp_path / "events.jsonl"
    whole = write_journal(path, 3)
    tail = Tail(path, FleetEvent)
    tail.read()
    path.write_bytes(whole[: len(whole) // 2])
    assert [record.seq for record in tail.read()] == seqs(path) == [1]
    assert tail.damage == ["events.jsonl was cut short or replaced; reading it again from its first line"]


def test_a_file_that_was_cut_and_grew_again_is_noticed(tmp_path: Path) -> None:
    """Same inode and a larger size do not hide that what was read is no longer there."""
    path = tmp_path / "events.jsonl"
    write_journal(path, 2)
    tail = Tail(path, FleetEvent)
    tail.read()
    path.write_bytes(b"".join(encode_line(paused(seq)) for seq in range(11, 15)))
    assert [record.seq for record in tail.read()] == [11, 12, 13, 14]
    assert len(tail.damage) == 1


def test_a_replaced_file_is_read_again(tmp_path: Path) -> None:
    """Another inode under the name starts a new reading."""
    path, other = tmp_path / "events.jsonl", tmp_path / "other.jsonl"
    write_journal(path, 2)
    tail = Tail(path, FleetEvent)
    tail.read()
    write_journal(other, 2)
    other.replace(path)
    assert [record.seq for record in tail.read()] == [1, 2]
    assert len(tail.damage) == 1


def test_a_deleted_file_is_reported_once(tmp_path: Path) -> None:
    """Deletion is damage, said once; a new file under the name is then read from its start."""
    path = tmp_path / "events.jsonl"
    size = len(write_journal(path, 2))
    tail = Tail(path, FleetEvent)
    tail.read()
    path.unlink()
    assert tail.read() == tail.read() == []
    assert tail.damage == [f"events.jsonl is gone; it held {size} bytes"]
    write_journal(path, 1)
    assert tail.read() == [paused(1)]


def test_setting_a_torn_tail_aside_does_not_disturb_a_reader(tmp_path: Path) -> None:
    """A reader that waits at half a line goes on without a gap when the next writer has cut that half off."""
    path = tmp_path / "events.jsonl"
    write_journal(path, 2)
    with path.open("ab") as file:
        file.write(b'{"kind":"pau')
    tail = Tail(path, FleetEvent)
    assert len(tail.read()) == 2
    log = AppendLog(path)
    log.append(paused)
    log.close()
    assert (tail.read(), tail.damage) == ([paused(3)], [])


def test_read_newest_looks_only_at_the_end(tmp_path: Path) -> None:
    """The newest records come oldest first; the line that the window cuts does not count."""
    path = tmp_path / "events.jsonl"
    whole = write_journal(path, 9)
    line = len(whole) // 9
    assert [record.seq for record in read_newest(path, FleetEvent, max_bytes=line * 3 + 5)] == [7, 8, 9]
    assert [record.seq for record in read_newest(path, FleetEvent)] == list(range(1, 10))
    path.write_bytes(whole[:-line] + b"garbage\n" + whole[-line:] + b'{"half')
    assert [record.seq for record in read_newest(path, FleetEvent, max_bytes=line * 3)] == [8, 9]


def test_a_long_file_is_read_whole(tmp_path: Path) -> None:
    """A long run's file is back in memory, line by line; how fast is for a benchmark to say."""
    path = tmp_path / "metrics.jsonl"
    metrics = {f"train/metric_{number}": number * 1.5 for number in range(12)}
    with path.open("wb") as file:
        for seq in range(1, 20_001):
            update = UpdateDone(seq, 1, seq, seq * 2048, 1000.0 + seq, 0.4, 0.1, 5000.0, metrics=dict(metrics))
            file.write(encode_line(update))
    records, damage = read_all(path, MetricRecord)
    assert (len(records), damage) == (20_000, [])


@pytest.mark.parametrize("odd", ["pipe", "folder"])
def test_what_is_no_file_is_an_error_at_once(tmp_path: Path, odd: str) -> None:
    """A pipe without a writer under a journal's name would hold up whoever reads all runs, for ever."""
    path = tmp_path / "events.jsonl"
    if odd == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    for read in (lambda: read_all(path, FleetEvent), lambda: read_newest(path, FleetEvent), lambda: read_exit(path)):
        with pytest.raises(OSError, match="not a regular file"):
            read()


@pytest.mark.timeout(10)
def test_millions_of_lines_that_are_no_records_are_passed_over(tmp_path: Path) -> None:
    """Ten thousand are looked at; what was before them comes out, and what is appended later too."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(encode_line(paused(1)) + b"\n" * 20_000_000)
    tail = Tail(path, FleetEvent)
    assert tail.read() == [paused(1)]
    (said,) = tail.damage
    assert "10000 more after it), and the rest of its 20,000," in said
    with path.open("ab") as file:
        file.write(encode_line(paused(2)))
    assert tail.read() == [paused(2)]
