"""Faults of the disk (rows D): what it refuses, loses or turns round."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from mission_tui.errors import MissionError
from mission_tui.supervisor.adoption import read_fleet
from tests.faults.campaign.part import violations_in
from tests.faults.parts import corruption, failing_calls, power_cuts
from tests.faults.scenes import RECORDED, SCENES
from tests.faults.small_disk import in_namespace, lacks_namespaces
from tests.faults.tracing import lacks_strace
from tests.records.limits import file_size_limit

mounting = pytest.mark.skipif(bool(lacks_namespaces()), reason=lacks_namespaces() or "namespaces work")


@mounting
@pytest.mark.timeout(60)
def test_d1_a_full_disk_takes_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """With room for nothing to a few pages: appends are refused by name and reason, and go on once there is room."""
    outcome = in_namespace(tmp_path, "full", "journal", "whole", "create", "remove")
    assert outcome["wrong"] == []
    assert any("free some disk space" in sentence for sentence in outcome["refused"])


@mounting
@pytest.mark.timeout(60)
def test_d2_a_full_disk_during_a_save_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    """The error names the checkpoint, nothing temporary stays, and saving works again once there is room."""
    outcome = in_namespace(tmp_path, "full", "save", "replace")
    assert outcome["wrong"] == []
    assert any("save checkpoint" in sentence and "free some disk space" in sentence for sentence in outcome["refused"])


@pytest.mark.parametrize("scene", ["journal", "save", "replace", "whole"])
def test_d2_a_write_cut_short_at_any_size_leaves_the_old_state(scene: str, tmp_path: Path) -> None:
    """Files may grow to so many bytes and no further: what came before stays, whatever the size."""
    for limit in range(0, 1200, 29):
        folder = tmp_path / str(limit)
        folder.mkdir()
        SCENES[scene].prepare(folder)
        told: list[str] = []
        with file_size_limit(limit), suppress(MissionError):
            SCENES[scene].act(folder, told.append)
        assert list(SCENES[scene].wrong(folder, told)) == [], f"at {limit} bytes"


@mounting
@pytest.mark.timeout(60)
@pytest.mark.parametrize(("kind", "remedy"), [("inodes", "free some disk space"), ("readonly", "mounted read-only")])
def test_d3_no_inodes_and_a_read_only_disk_are_named(kind: str, remedy: str, tmp_path: Path) -> None:
    """Every change of state is refused with its own reason, and leaves the old state."""
    # A supervisor keeps the journals of what it adopts open for as long as it lives, so its disk cannot be taken away.
    outcome = in_namespace(tmp_path, kind, *(scene for scene in SCENES if scene != "adopt"))
    assert outcome["wrong"] == []
    assert any(remedy in sentence for sentence in outcome["refused"])


@pytest.mark.skipif(bool(lacks_strace()), reason=lacks_strace() or "strace works")
@pytest.mark.timeout(90)
@pytest.mark.parametrize("scene", ["journal", "save"])
def test_d4_an_input_output_error_anywhere_is_survived(scene: str) -> None:
    """EIO from each write, sync, close and rename, once or for good: our own error, nothing acknowledged is lost."""
    rounds = [
        index
        for index, (name, syscall, error, _) in enumerate(failing_calls.FAILURES)
        if name == scene and error == "EIO" and syscall in ("write", "fsync", "fdatasync", "close", "rename")
    ]
    found, figures = violations_in(failing_calls.PART, rounds)
    assert found == []
    assert figures["failed calls"] > 20


@pytest.mark.skipif(bool(lacks_strace()), reason=lacks_strace() or "strace works")
@pytest.mark.timeout(90)
def test_d7_what_was_acknowledged_survives_a_power_cut_at_any_call() -> None:
    """Of what was not synced any beginning may be on the disk: no acknowledged change is gone, no half has a name."""
    found, figures = violations_in(power_cuts.PART, range(power_cuts.PART.rounds))
    assert found == []
    assert figures["states of a disk"] > 100


def test_d5_a_torn_or_zeroed_tail_is_set_aside_and_all_earlier_records_stay() -> None:
    """A journal cut at every length or with zeros at its end gives back every whole line and goes on after it."""
    found, figures = violations_in(corruption.PART, range(2, 1500, 3))
    assert found == []
    assert figures["damaged journals"] == 500


def test_d6_a_damaged_record_is_rejected_alone_and_reported() -> None:
    """A flip in any byte, and worse, costs the lines it touches and no other; the reader says so."""
    found, figures = violations_in(corruption.PART, range(1502, 4500, 3))
    assert found == []
    assert figures["damaged journals"] == 1000


def test_d10_odd_entries_among_many_runs_hide_none_of_them(tmp_path: Path) -> None:
    """A thousand runs, every tenth with a journal that is noise, a folder, a loop, a pipe or absent: all are found."""
    for number in range(1000):
        run = tmp_path / f"20260101-000000-many-{number:04x}"
        run.mkdir()
        journal = run / "events.jsonl"
        match number % 50:
            case 0:
                journal.write_bytes(b"\x00 noise \xff\n" * 50)
            case 10:
                journal.mkdir()
            case 20:
                journal.symlink_to(journal)
            case 30:
                os.mkfifo(journal)
            case 40:
                pass
            case _:
                journal.write_bytes((RECORDED / "events.jsonl").read_bytes())
    live, ended = read_fleet(tmp_path)
    assert len(ended) == 900
    assert len(live) == 100
    assert sum("events.jsonl" in found.damage for found in live) == 80
