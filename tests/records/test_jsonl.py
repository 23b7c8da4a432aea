"""One record, one line, one checksum. The writing end: `seq` goes on, a torn tail is set aside, a refused write leaves
nothing behind. The reading end: each record once, in order; damage is skipped and told.
"""

from __future__ import annotations

import errno
import json
import os
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from mission_tui.errors import DamagedError
from mission_tui.fleet.events.journal import FleetEvent, RunCreated
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.history.run import phase_before
from mission_tui.records import jsonl
from mission_tui.records.atomic import StorageError
from mission_tui.records.jsonl import (
    BLOCK_BYTES,
    LINE_BYTES,
    AppendLog,
    Tail,
    TimeIndex,
    decode_line,
    each_record,
    encode_line,
    read_all,
    read_newest,
)
from mission_tui.records.runs.attempt import read_exit
from tests.records.journal import paused, seqs, write_journal
from tests.records.limits import file_size_limit

CREATED = RunCreated(seq=3, t=1.5, name='quote " brace } ,"crc": Ω', preset="demo")


def test_a_record_survives_its_line() -> None:
    """What was encoded decodes to an equal record, hostile text included."""
    assert decode_line(encode_line(CREATED), FleetEvent) == CREATED


def test_the_line_is_json_with_crc_last() -> None:
    """Any JSON tool reads the line; `crc` is the last key and the CRC-32 of the bytes before `,"crc"`."""
    line = encode_line(CREATED)
    table = json.loads(line)
    assert list(table)[-1] == "crc"
    before = line[: line.rindex(b',"crc"')]
    assert table["crc"] == f"{zlib.crc32(before):08x}"
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1


def test_non_finite_numbers_travel_by_name() -> None:
    """A NaN metric comes back as the string that was spoken, not as null."""
    update = UpdateDone(1, 1, 1, 64, 0.0, 0.1, 0.1, 9.0, metrics={"train/loss": "nan"})
    assert decode_line(encode_line(update), MetricRecord).metrics == {"train/loss": "nan"}


def test_unknown_fields_are_passed_over() -> None:
    """A line of a newer version with one more field is still a record."""
    body = encode_line(paused(1)).split(b',"crc"')[0] + b',"novelty":[1]'
    line = body + b',"crc":"%08x"}\n' % zlib.crc32(body)
    assert decode_line(line, FleetEvent) == paused(1)


def test_every_flipped_bit_is_noticed() -> None:
    """No single-bit error in a line, newline included, yields a record."""
    line = encode_line(paused(1))
    for index in range(len(line)):
        for bit in range(8):
            flipped = bytearray(line)
            flipped[index] ^= 1 << bit
            with pytest.raises(DamagedError):
                decode_line(bytes(flipped), FleetEvent)


@pytest.mark.parametrize("raw", [b"", b"\n", b"\0" * 64, b"{}", b'{"seq":1,"kind":"paused","t":1,"attempt":1}\n'])
def test_a_line_without_checksum_is_damage(raw: bytes) -> None:
    """Empty, zeroed and unsealed lines are told apart from records."""
    with pytest.raises(DamagedError, match="checksum"):
        decode_line(raw, FleetEvent)


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"unheard","seq":1',
        b'{"kind":"paused","seq":"x"',
        b'{"kind":"damaged","seq":1,"t":1,"detail":"","file":"\xff"',
        b'{"kind":"damaged","seq":1,"t":1,"detail":"","file":"\\ud800"',
        b'{"a":' + b"[" * 200_000,
    ],
)
def test_a_whole_line_of_something_else_is_damage(body: bytes) -> None:
    """A right checksum does not make a record: unknown kinds, wrong types, bad UTF-8 and bracket bombs are refused."""
    with pytest.raises(DamagedError, match="not a record"):
        decode_line(body + b',"crc":"%08x"}\n' % zlib.crc32(body), FleetEvent)


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


@pytest.mark.parametrize(("sync_s", "syncs"), [(0.0, 60), (2.0, 3), (30.0, 2)])
def test_a_slow_disk_is_waited_for_less_often(
    sync_s: float, syncs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A minute of rows, one each second, and what closing syncs: who trains waits a twentieth of its time at most."""
    now, synced = [0.0], []

    def sync(descriptor: int) -> None:
        synced.append(descriptor)
        now[0] += sync_s

    monkeypatch.setattr(os, "fdatasync", sync)
    monkeypatch.setattr(jsonl, "time", SimpleNamespace(monotonic=lambda: now[0]))
    log = AppendLog(tmp_path / "metrics.jsonl", sync_every_s=1.0)
    while now[0] < 60.0:
        log.append(paused)
        now[0] += 1.0
    log.close()
    assert len(synced) == syncs


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


def test_a_file_is_read_in_slices_whatever_its_lines_are_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One record after another, also those that are longer than a slice, and damage in between."""
    monkeypatch.setattr(jsonl, "SLICE_BYTES", 300)
    path = tmp_path / "events.jsonl"
    write_journal(path, 20)
    long = UpdateDone(21, 1, 1, 1, 0.0, 0.4, 0.1, 1.0, metrics={f"train/metric_{number}": 1.5 for number in range(99)})
    with path.open("ab") as file:
        file.write(b"garbage\n" + encode_line(long) + encode_line(paused(22)) + b'{"half')
    tail = Tail(path, FleetEvent | UpdateDone)
    assert [record.seq for record in tail.each()] == list(range(1, 23))
    assert len(tail.damage) == 1
    assert [record.seq for record in each_record(path, FleetEvent | UpdateDone)] == list(range(1, 23))
    assert list(each_record(tmp_path / "absent", FleetEvent)) == []


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


ROW = UpdateDone(1, 1, 1, 64, t=100.0, rollout_s=6.0, update_s=2.0, steps_per_s=8.0)


@pytest.mark.parametrize(("moment", "lines"), [(0.5, 0), (1.0, 1), (2.5, 2), (3.0, 3), (99.0, 3)])
def test_a_line_is_known_from_its_moment_on(moment: float, lines: int) -> None:
    """Up to and with the moment itself."""
    assert TimeIndex([1.0, 2.0, 3.0]).count_until(moment) == lines


def test_a_line_was_written_no_later_than_the_lines_after_it() -> None:
    """A clock that was ahead for a while hides nothing of what followed."""
    index = TimeIndex([10.0, 4000.0, 4001.0, 30.0, 40.0])
    assert [index.count_until(t) for t in (10.0, 29.0, 30.0, 40.0)] == [1, 1, 4, 5]


@pytest.mark.parametrize(
    ("moment", "phase", "since"),
    [(91.0, None, 91.0), (92.0, "rollout", 92.0), (97.9, "rollout", 92.0), (98.0, "update", 98.0)],
)
def test_a_row_says_what_was_done_before_it(moment: float, phase: str | None, since: float) -> None:
    """Its seconds of rollout and update end at its own time."""
    seen = phase_before(ROW, moment)
    assert (seen.phase, seen.t) == (phase, since)
