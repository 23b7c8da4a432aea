"""What ended at other runs roots: told from small files of the user's own, never from those roots."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from mission_tui.paths import socket_dir, used_roots_dir
from mission_tui.records import runs_roots
from mission_tui.records.runs_roots import MOST_KEPT, MOST_READ, ended_elsewhere, note_ends, note_look


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A user's own state folder."""
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


def a_root(tmp_path: Path, name: str = "elsewhere") -> Path:
    (tmp_path / name).mkdir()
    return tmp_path / name


def test_what_ended_since_the_last_look_is_said_with_the_command_that_shows_it(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """Each end counts once a look; this very root says nothing of itself."""
    here, there = a_root(tmp_path, "here"), a_root(tmp_path)
    note_ends(there, [time.time() - 60, time.time() - 30], environ)
    note_ends(here, [time.time() - 30], environ)
    (ended,) = ended_elsewhere(here, environ)
    assert ended.sentence == f"2 runs ended elsewhere since you last looked: mission-tui --runs-dir {there}"
    note_look(there, environ)
    assert ended_elsewhere(here, environ) == ()
    note_ends(there, [time.time() + 5], environ)
    (ended,) = ended_elsewhere(here, environ)
    assert ended.sentence.startswith("1 run ended elsewhere ")


def test_roots_that_are_gone_and_ends_of_last_year_are_no_news(tmp_path: Path, environ: dict[str, str]) -> None:
    """Nobody can look at the first, and nobody waits for the second."""
    there = a_root(tmp_path)
    note_ends(there, [time.time() - 400 * 86400], environ)
    assert ended_elsewhere(tmp_path, environ) == ()
    note_ends(there, [time.time()], environ)
    there.rmdir()
    assert ended_elsewhere(tmp_path, environ) == ()


def test_a_supervisor_tells_of_its_own_time_and_of_what_ended_since_it_was_told_last(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """Old runs of a root that is used for the first time are no news; those that ended while none was there are."""
    there, now = a_root(tmp_path), time.time()
    note_ends(there, [now - 500, now - 400], environ, since_t=now - 100)
    assert ended_elsewhere(tmp_path, environ) == ()
    note_ends(there, [now - 400, now - 50], environ, since_t=now - 100)
    note_ends(there, [now - 400, now - 50, now - 40], environ, since_t=now - 10)
    assert [ended.runs for ended in ended_elsewhere(tmp_path, environ)] == [2]


def test_nothing_is_read_of_a_root_itself(tmp_path: Path, environ: dict[str, str]) -> None:
    """Whatever lies there: a runs root may be anybody's by now."""
    there = a_root(tmp_path)
    note_ends(there, [time.time()], environ)
    there.chmod(0o000)
    try:
        assert [ended.runs for ended in ended_elsewhere(tmp_path, environ)] == [1]
    finally:
        there.chmod(0o700)


@pytest.mark.parametrize(
    "written", [b"", b"{", b'{"root": 5}', b"[" * 5000, b'{"root": "/x\\u001b[31m", "ended": [9e12]}']
)
def test_a_file_of_nonsense_says_nothing(tmp_path: Path, environ: dict[str, str], written: bytes) -> None:
    """Nor does one that names another root than its own name does."""
    folder = used_roots_dir(environ)
    folder.mkdir(parents=True)
    (folder / f"{socket_dir(tmp_path / 'x').name}.ends").write_bytes(written)
    there = a_root(tmp_path)
    note_ends(there, [time.time()], environ)
    (folder / f"{socket_dir(there).name}.ends").rename(folder / "0123456789ab.ends")
    assert ended_elsewhere(tmp_path, environ) == ()


def test_few_files_are_read_and_few_are_kept(tmp_path: Path, environ: dict[str, str]) -> None:
    """However many roots there were; all of it is the user's alone."""
    for number in range(MOST_KEPT + 5):
        root = a_root(tmp_path, f"root-{number:02}")
        note_look(root, environ)
        note_ends(root, [time.time() + 60], environ)
    folder = used_roots_dir(environ)
    assert len(list(folder.iterdir())) <= 2 * MOST_KEPT
    assert len(ended_elsewhere(tmp_path, environ)) == MOST_READ
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert (modes, stat.S_IMODE(folder.stat().st_mode)) == ({0o600}, 0o700)


def test_a_root_on_a_file_server_that_hangs_keeps_nobody_waiting(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks goes on after a moment, without what is not known."""
    there, hanging = a_root(tmp_path), os.pipe()
    note_ends(there, [time.time()], environ)
    monkeypatch.setattr(Path, "is_dir", lambda _path: bool(os.read(hanging[0], 1)))
    monkeypatch.setattr(runs_roots, "PATIENCE_S", 0.05)
    began = time.monotonic()
    assert ended_elsewhere(tmp_path, environ) == ()
    assert time.monotonic() - began < 2.0
    os.write(hanging[1], b"x")
    for end in hanging:
        os.close(end)


def test_a_state_folder_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    """Neither the end of a run nor a look fails for it."""
    (tmp_path / "file").touch()
    environ = {"XDG_STATE_HOME": str(tmp_path / "file")}
    note_ends(tmp_path, [1.0], environ)
    note_look(tmp_path, environ)
    assert ended_elsewhere(tmp_path, environ) == ()
