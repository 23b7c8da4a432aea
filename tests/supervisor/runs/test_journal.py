"""What the supervisor saw survives a disk that refuses for a while; what was asked for is refused instead."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from mission_tui.fleet.events.journal import FleetEvent, KeeperLost
from mission_tui.records.atomic import Reserve, StorageError
from mission_tui.records.jsonl import read_all
from mission_tui.supervisor.runs.journal import FleetJournal, RunJournal
from tests.full_disk import fill, small_disk


def lost(attempt: int, seq: int, t: float) -> KeeperLost:
    """An event to write."""
    return KeeperLost(seq, t, attempt)


def test_what_was_seen_is_held_and_written_later_in_order(tmp_path: Path) -> None:
    """While the folder is missing events are held with the numbers they will have; then they are all in the file."""
    path = tmp_path / "run" / "events.jsonl"
    journal = RunJournal(path)
    held = [journal.append_or_hold(partial(lost, attempt)) for attempt in (1, 2)]
    assert [event.seq for event in held] == [1, 2]
    with pytest.raises(StorageError):
        journal.append(partial(lost, 3))
    assert journal.holding
    path.parent.mkdir()
    journal.append(partial(lost, 3))
    journal.close()
    events, damage = read_all(path, FleetEvent)
    assert not damage
    assert events[:2] == held
    assert [(event.seq, event.attempt) for event in events] == [(1, 1), (2, 2), (3, 3)]


def test_on_a_full_disk_request_after_request_is_written(tmp_path: Path) -> None:
    """(root) Though the rows of trainings take whatever is free in between, `kill` works all night."""
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        reserve = Reserve(disk / "reserve", 128 << 10)
        reserve.hold()
        journal = RunJournal(disk / "events.jsonl", reserve=reserve)
        for attempt in range(1, 101):
            fill(disk).rename(disk / f"rows-{attempt}")
            journal.append(partial(lost, attempt))
        journal.close()
        events, damage = read_all(disk / "events.jsonl", FleetEvent)
        assert ([event.seq for event in events], damage) == (list(range(1, 101)), [])


def test_a_half_line_is_set_aside_and_said(tmp_path: Path) -> None:
    """A writer that was cut off leaves half a line; opening says how much was set aside, once."""
    path = tmp_path / "events.jsonl"
    first = RunJournal(path)
    first.append(partial(lost, 1))
    first.close()
    with path.open("ab") as file:
        file.write(b'{"kind":"keep')
    journal = RunJournal(path, 1)
    assert "13 bytes" in (journal.open() or "")
    assert journal.open() is None
    assert journal.append(partial(lost, 2)).seq == 2
    journal.close()


def test_the_fleet_journal_tells_what_was_done(tmp_path: Path) -> None:
    """Start, removal and leaving are lines of the runs root's own journal."""
    journal = FleetJournal(tmp_path / "events.jsonl")
    journal.started()
    journal.leftover_removed("run-1", "process 7: sleep")
    journal.run_removed("run-2")
    journal.left("asked to")
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    kinds = ["supervisor_started", "leftover_removed", "run_removed", "supervisor_left"]
    assert [line["kind"] for line in lines] == kinds
    assert [line["seq"] for line in lines] == [1, 2, 3, 4]
