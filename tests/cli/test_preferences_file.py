"""Where the look of the screen is kept: what is not ours survives, and nothing about it is worth failing for."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mission_tui.cli import screen
from mission_tui.cli.screen import LastSeen, PreferencesFile
from mission_tui.cli.verbs.supervisor import UnitFile, _write
from mission_tui.records.preset_files import write_preset
from mission_tui.supervisor.launchers.order import _link


def made(folder: Path) -> PreferencesFile:
    """The file of a user whose home is `folder`."""
    return PreferencesFile.of({"HOME": str(folder)})


def test_what_is_chosen_is_found_again(tmp_path: Path) -> None:
    """In the state folder, for whoever reads next; None forgets."""
    assert made(tmp_path).read() == {}
    made(tmp_path).write({"sort": "return", "panes": True})
    made(tmp_path).write({"panes": None})
    assert made(tmp_path).read() == {"sort": "return"}
    assert made(tmp_path).path == tmp_path / ".local" / "state" / "mission-tui" / "screen.json"
    assert PreferencesFile.of({"XDG_STATE_HOME": "/x", "HOME": "/h"}).path == Path("/x/mission-tui/screen.json")


def test_folders_of_ours_are_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    """A colleague of the same group could put a preset, a unit or a lent package where it counts as this user's."""
    state, config = tmp_path / "state", tmp_path / "config"
    before = os.umask(0)
    try:
        PreferencesFile(state / "a" / "screen.json").write({"sort": "return"})
        LastSeen(state / "b" / "last-seen").write(1.0)
        _link(state / "c" / "lent" / "msgspec", tmp_path)
        write_preset(config / "presets" / "mine.toml", {"description": "mine"})
        _write(UnitFile(config / "systemd", tmp_path / "runs"), "[Service]\n")
    finally:
        os.umask(before)
    made_here = [path for path in (*state.rglob("*"), *config.rglob("*")) if path.is_dir() and not path.is_symlink()]
    assert len(made_here) >= 6
    assert [path for path in (state, config, *made_here) if path.stat().st_mode & 0o077] == []


def test_two_screens_keep_what_each_of_them_chose(tmp_path: Path) -> None:
    """And what a newer version wrote stays."""
    one, other = made(tmp_path), made(tmp_path)
    one.write({"from_the_future": [1, 2]})
    one.write({"sort": "return", "panes": True})
    other.write({"panes": False})
    assert made(tmp_path).read() == {"from_the_future": [1, 2], "sort": "return", "panes": False}
    assert [path.name for path in one.path.parent.iterdir()] == ["screen.json"]


@pytest.mark.parametrize(
    "foreign", [b"", b"[1]", b'{"sort":', b"\xff\x00", b'{"sort": NaN}', b"[" * 9999, b" " * 70_000]
)
def test_a_file_that_is_no_such_table_is_put_aside(tmp_path: Path, foreign: bytes) -> None:
    """It counts as nothing, and is not lost when something is chosen."""
    kept = made(tmp_path)
    kept.path.parent.mkdir(parents=True)
    kept.path.write_bytes(foreign)
    assert kept.read() == {}
    assert kept.path.read_bytes() == foreign
    kept.write({"sort": "run"})
    assert kept.read() == {"sort": "run"}
    assert kept.path.with_name("screen.json.unread").read_bytes() == foreign


def test_a_pipe_in_its_place_stops_nobody(tmp_path: Path) -> None:
    """Nothing waits for its other end."""
    kept = made(tmp_path)
    kept.path.parent.mkdir(parents=True)
    os.mkfifo(kept.path)
    assert kept.read() == {}


def test_a_place_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    """The screen is left all the same."""
    (tmp_path / "file").touch()
    kept = PreferencesFile(tmp_path / "file" / "screen.json")
    kept.write({"sort": "run"})
    assert kept.read() == {}


def test_a_home_that_hangs_keeps_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing goes on without whoever leaves."""
    let_go = threading.Event()
    monkeypatch.setattr(screen, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(PreferencesFile, "_merge", lambda *_: let_go.wait())
    made(tmp_path).write({"sort": "run"})
    assert not let_go.is_set()
    let_go.set()


def test_the_file_is_for_people_to_read(tmp_path: Path) -> None:
    """One name a line, so that it can be mended or removed by hand."""
    kept = made(tmp_path)
    kept.write({"sort": "run", "panes": False})
    assert kept.path.read_text().splitlines() == ["{", '  "sort": "run",', '  "panes": false', "}"]
