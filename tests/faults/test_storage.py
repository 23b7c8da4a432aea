"""Faults of the disk (rows D): what it refuses, loses or turns round."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, RunCreated
from mission_tui.fleet.events.outcome import Finished
from mission_tui.records.jsonl import Tail, encode_line
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.launchers.local import LocalLauncher
from mission_tui.supervisor.lifecycle.adoption import load_waiting, taking_in
from mission_tui.supervisor.runs import resolve_run, run_on_disk
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.run_on_disk import finish, read_fleet
from tests.faults.campaign.part import violations_in
from tests.faults.parts import corruption, failing_calls, power_cuts
from tests.faults.scenes import RECORDED, SCENES
from tests.faults.small_disk import in_namespace, lacks_namespaces
from tests.faults.tracing import lacks_strace
from tests.records.limits import file_size_limit

mounting = pytest.mark.skipif(bool(lacks_namespaces()), reason=lacks_namespaces() or "namespaces work")


@pytest.mark.slow
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


@pytest.mark.slow
@mounting
@pytest.mark.timeout(60)
@pytest.mark.parametrize(("kind", "remedy"), [("inodes", "no inodes left"), ("readonly", "mounted read-only")])
def test_d3_no_inodes_and_a_read_only_disk_are_named(kind: str, remedy: str, tmp_path: Path) -> None:
    """Every change of state is refused with its own reason, and leaves the old state."""
    # A supervisor keeps the journals of what it adopts open for as long as it lives, so its disk cannot be taken away.
    outcome = in_namespace(tmp_path, kind, *(scene for scene in SCENES if scene != "adopt"))
    assert outcome["wrong"] == []
    assert any(remedy in sentence for sentence in outcome["refused"])


@pytest.mark.slow
@pytest.mark.skipif(bool(lacks_strace()), reason=lacks_strace() or "strace works")
@pytest.mark.timeout(90)
@pytest.mark.parametrize("scene", ["journal", "save", "purge"])
def test_d4_an_input_output_error_anywhere_is_survived(scene: str) -> None:
    """EIO from each open, write, sync, close, rename, once or for good: our own error, nothing acknowledged is lost."""
    calls = ("openat", "write", "fsync", "fdatasync", "close", "rename")
    rounds = [
        index
        for index, (name, syscall, error, _) in enumerate(failing_calls.FAILURES)
        if name == scene and error == "EIO" and syscall in calls
    ]
    found, figures = violations_in(failing_calls.PART, rounds)
    assert found == []
    assert figures["failed calls"] > 20


@pytest.mark.slow
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


@pytest.mark.slow
def test_d6_a_damaged_record_is_rejected_alone_and_reported() -> None:
    """A flip in any byte, and worse, costs the lines it touches and no other; the reader says so."""
    found, figures = violations_in(corruption.PART, range(1502, 4500, 3))
    assert found == []
    assert figures["damaged journals"] == 1000


@pytest.mark.slow
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


@pytest.mark.slow
async def test_d10_of_many_old_runs_only_the_newest_are_read_before_the_first_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 2,000 the newest 200 and the damaged ones are read; names, order and number are right of all at once."""
    for number in range(2000):
        run = RunDir(tmp_path / f"20260101-000000-many-{number:04x}")
        old_run(run, number, damaged=number % 500 == 7)
    (tmp_path / ".supervisor").mkdir()
    read = CountedReads(monkeypatch)
    core = Core(tmp_path, {"local": LocalLauncher()})
    finish(taking_in(core))
    assert read.runs == 200 + 4
    assert core.store.snapshot(0.0).ended_total == 2000
    assert [len(core.waiting), len(core.store.live_ids())] == [1796, 0]
    assert core.store.view("20260101-000000-many-0007").flags == ("damaged", "foreign")
    page, total = core.store.ended(1990, 200)
    assert ([view.name for view in page], total) == ([f"old-{number}" for number in range(9, -1, -1)], 2000)
    assert resolve_run(core, "old-3") == "20260101-000000-many-0003"
    assert read.runs == 200 + 5
    assert core.store.view("20260101-000000-many-0003").total_timesteps == 1000
    with pytest.raises(UsageError, match="matches 16 runs"):
        resolve_run(core, "20260101-000000-many-012")
    for run_id in list(core.waiting)[:100]:
        load_waiting(core, run_id)
    assert (read.runs, len(core.waiting), core.store.snapshot(0.0).ended_total) == (305, 1695, 2000)
    assert core.store.view(f"20260101-000000-many-{1799:04x}").outcome == "finished"


def old_run(run: RunDir, number: int, *, damaged: bool) -> None:
    """A run that ended, the higher `number` the later; a damaged one has noise in its end."""
    run.path.mkdir()
    run.spec.symlink_to(RECORDED / "spec.toml")
    events = (
        RunCreated(1, float(number), f"old-{number}", "tiny"),
        AttemptStarting(2, number + 0.1, 1, total_timesteps=1000),
        AttemptEnded(3, number + 0.5, 1, Finished("000001000")),
    )
    noise = b"noise\n" if damaged else b""
    run.events.write_bytes(b"".join(map(encode_line, events)) + noise)


class CountedReads:
    """How many journals were read whole."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs = 0
        monkeypatch.setattr(run_on_disk, "Tail", self._tail)

    def _tail(self, path: Path, type_: object, **more: Any) -> Tail:
        self.runs += 1
        return Tail(path, type_, **more)
