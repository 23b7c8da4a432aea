"""What `doctor` concludes from what it reads."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from mission_tui.cli.session import Session
from mission_tui.cli.verbs import doctor
from mission_tui.fleet.resume.verdict import Change
from mission_tui.ipc.replies import Upgrade, UpgradesReply


def test_a_driver_older_than_torchs_cuda_is_named_with_the_release_it_needs() -> None:
    """A driver below the minimum of the CUDA that torch was built for is bad, and says which release would do."""
    found = doctor.judge_driver("535.183.01", "13.0")
    assert found.level == "bad"
    assert "535.183.01" in found.detail
    assert "580" in found.advice


@pytest.mark.parametrize(
    ("driver", "cuda", "level"),
    [("580.82.07", "13.0", "ok"), ("535.183.01", "12.8", "ok"), (None, "12.8", "note"), ("580.82.07", None, "warn")],
)
def test_drivers_and_builds_that_fit_or_are_absent(driver: str | None, cuda: str | None, level: str) -> None:
    """A fitting pair is fine, no driver is a fact, a driver with a CPU build of torch is a waste."""
    assert doctor.judge_driver(driver, cuda).level == level


@pytest.mark.parametrize(
    ("lines", "kills"),
    [
        ([], False),
        (["#KillUserProcesses=yes"], False),
        (["KillUserProcesses=yes"], True),
        (["KillUserProcesses=yes", "KillUserProcesses = no"], False),
    ],
)
def test_logind_settings_override_each_other_in_order(lines: list[str], kills: bool) -> None:
    """The last setting wins and comments do not count."""
    assert doctor.kills_user_processes(lines) is kills


def test_what_was_upgraded_under_live_runs_is_a_warning() -> None:
    """One line for each run, with versions; without any, one word for all."""
    change = Change("packages", "torch 2.13.0", "torch 2.14.0", "note", "1 differ")
    (found,) = doctor.judge_upgrades(
        UpgradesReply(re=1, upgrades=(Upgrade(run="a", name="heavy", changes=(change,)),), looked=2)
    )
    assert (found.level, found.detail) == ("warn", "heavy: packages: torch 2.13.0 -> torch 2.14.0")
    (found,) = doctor.judge_upgrades(UpgradesReply(re=1, upgrades=(), looked=2))
    assert (found.level, found.detail) == ("ok", "2 live runs have what they were launched with")


def test_every_resource_of_this_machine_is_reported(tmp_path: Path) -> None:
    """Cores, memory and disk are each named, for a runs root that does not exist yet too."""
    found = doctor.machine_checks(tmp_path / "not" / "yet")
    assert [check.name for check in found] == ["cores", "memory", "disk"]
    assert all(check.detail for check in found)


def test_a_disk_that_is_short_of_inodes_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free bytes are no help without names; a file system that counts none is not blamed."""
    levels = []
    for files, left in ((400, 3), (10**6, 10**5), (0, 0)):
        counted = SimpleNamespace(f_files=files, f_favail=left)
        monkeypatch.setattr(os, "statvfs", lambda _, it=counted: it)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 40, total=1 << 41))
        (disk,) = [check for check in doctor.machine_checks(tmp_path) if check.name == "disk"]
        levels.append(disk.level)
    assert levels == ["warn", "ok", "ok"]


def test_a_runs_root_below_a_file_is_bad(tmp_path: Path) -> None:
    """A runs root that can never exist is found before a launch finds it."""
    (tmp_path / "file").write_text("")
    session = Session(tmp_path / "file" / "runs", tmp_path, {})
    by_name = {check.name: check for check in doctor.place_checks(session)}
    assert by_name["runs root"].level == "bad"
    assert by_name["supervisor"].level == "note"


@pytest.mark.parametrize(("mode", "level"), [(0o777, "warn"), (0o1777, "ok"), (0o755, "ok")])
def test_a_folder_in_which_others_may_rename_the_runs_root_is_said(mode: int, level: str, tmp_path: Path) -> None:
    """A project's folder for everybody: whoever renames what lies in it takes the runs away. Sticky ones are safe."""
    project = tmp_path / "project"
    root = project / "mine" / "runs"
    root.mkdir(parents=True)
    project.chmod(mode)
    found = next(it for it in doctor.place_checks(Session(root, tmp_path, {})) if it.name == "runs root")
    assert found.level == level
    assert (str(project) in found.advice) is (level == "warn")


def test_a_runs_root_that_cannot_be_written_is_bad_under_its_supervisor_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who takes its mode away has runs that go on, and launches that are refused."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(Session, "is_supervised", True)
    tmp_path.chmod(0o700)
    found = next(it for it in doctor.place_checks(Session(tmp_path, tmp_path, {})) if it.name == "runs root")
    assert found.level == "bad"
    assert f"chmod u+rwx {tmp_path}" in found.advice


@pytest.mark.parametrize("term", ["", "dumb"])
def test_a_dumb_terminal_cannot_hold_the_screen(term: str) -> None:
    """Without a capable terminal the advice names the verbs that need none."""
    (found,) = doctor.terminal_checks({"TERM": term})
    assert found.level == "note"
    assert "mission-tui status" in found.advice


@pytest.mark.parametrize(
    ("flags", "blocks", "files", "words"),
    [
        (0, 0, 5, "is full"),
        (0, 5, 0, "is full"),
        (os.ST_RDONLY, 5, 5, "is on a read-only file system"),
        (0, 5, 5, ""),
    ],
    ids=["no space", "no inodes", "read-only", "room"],
)
def test_where_no_socket_can_be_made_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int, blocks: int, files: int, words: str
) -> None:
    """A full /tmp starts no supervisor, whatever room the runs root has."""
    disk = os.statvfs_result((4096, 4096, 9, 9, blocks, 9, 9, files, flags, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    found = doctor.room_for_sockets(tmp_path)
    assert (found.detail if found else "").endswith(words)
    assert (found is None) is not bool(words)
