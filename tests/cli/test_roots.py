"""Several runs roots of one user: `paths` and `status --all-roots` show them, the screen goes from one to another."""

from __future__ import annotations

import os
import pty
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mission_tui.cli import session
from mission_tui.cli.session import Session
from mission_tui.errors import UsageError
from mission_tui.paths import socket_dir, used_roots_dir
from tests.e2e.terminal import Terminal
from tests.shell import Shell, opened
from tests.waiting import until


@pytest.fixture
def other(quick: Shell, tmp_path: Path) -> Iterator[Shell]:
    """A second project of the same person, with a run that goes on."""
    (tmp_path / "other").mkdir()
    with opened(tmp_path / "other") as made:
        made.environ.update(quick.environ)
        made.launch("tiny", "--name", "theirs")
        yield made


@pytest.mark.slow
def test_paths_and_status_name_the_other_live_roots(quick: Shell, other: Shell) -> None:
    """`paths` starts nothing and names them; `--all-roots` shows the runs of each; a stopped one is not named."""
    named = {"root": str(other.root), "live": 1}
    until(lambda: named in quick.json("paths")["elsewhere"], 20, "the other root is named")
    assert f"{other.root} (1 run)" in quick.typed("paths").stdout
    assert not (quick.root / ".supervisor").exists()
    until(lambda: named in quick.json("status")["elsewhere"], 20, "the supervisor has seen it")
    assert f"{other.root} (1 run)" in quick.typed("status").stderr
    by_root = {each["runs_root"]: each for each in quick.json("status", "--all-roots")["roots"]}
    assert {str(quick.root), str(other.root)} <= set(by_root)
    assert [run["name"] for run in by_root[str(other.root)]["runs"]] == ["theirs"]
    assert "theirs" in quick.typed("status", "--all-roots").stdout
    other("supervisor", "stop", "--with-runs")
    assert named["root"] not in [each["root"] for each in quick.json("paths")["elsewhere"]]


@pytest.mark.slow
def test_status_on_a_terminal_names_roots_in_which_runs_ended(quick: Shell, other: Shell) -> None:
    """Until somebody looks there; what goes to a pipe or a program is left as it is."""
    done = other("kill", "theirs")
    assert done.returncode == 0
    noted = used_roots_dir(other.environ) / f"{socket_dir(other.root).name}.ends"
    until(noted.is_file, 20, "the end is noted")
    said = f"1 run ended elsewhere since you last looked: mission-tui --runs-dir {other.root}"
    assert said in on_terminal(quick, "status")
    assert said not in quick.typed("status").stderr
    assert f"--runs-dir {other.root}" not in on_terminal(other, "status")
    assert said not in on_terminal(quick, "status")


def on_terminal(shell: Shell, *words: str) -> str:
    """What the command says on stderr where that is a terminal, in one line."""
    reader, terminal = pty.openpty()
    os.set_blocking(reader, False)
    with shell.start(*words, stderr=terminal) as process:
        process.communicate(timeout=60)
    os.close(terminal)
    said = b""
    with suppress(OSError):
        while piece := os.read(reader, 65536):
            said += piece
    os.close(reader)
    return " ".join(said.decode().split())


def test_a_superuser_is_told_whose_runs_root_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `sudo` a supervisor of root's would begin there and keep its user out; in a container nobody has used it."""
    asked = Session(tmp_path, tmp_path, {})
    assert asked.whose_it_is == ""
    (tmp_path / ".supervisor").mkdir()
    if os.getuid() == 0:
        os.chown(tmp_path / ".supervisor", 54321, -1)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert "you are root" in asked.whose_it_is
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert asked.whose_it_is == ""


def test_a_supervisor_is_asked_also_where_its_disk_became_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows which runs live, and ends them; without one nothing can begin there."""
    asked = Session(tmp_path, tmp_path, {})
    monkeypatch.setattr(os, "access", lambda path, mode: mode & os.W_OK == 0)
    with pytest.raises(UsageError, match="cannot be written"):
        asked.require_writable_root()
    monkeypatch.setattr(session, "_is_supervised", lambda root: root == tmp_path)
    asked.require_writable_root()


def test_all_roots_is_asked_for_alone(quick: Shell) -> None:
    """With a run it would not be clear whose."""
    done = quick.typed("status", "--all-roots", "@last")
    assert done.returncode == 2
    assert "--all-roots" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_one_key_goes_to_the_other_root_and_back(quick: Shell, other: Shell) -> None:
    """In a real terminal and one process; each screen shows its own runs, and `q` still leaves."""
    quick.launch("tiny", "--name", "mine")
    named = {"root": str(other.root), "live": 1}
    until(lambda: named in quick.json("status")["elsewhere"], 20, "the supervisor has seen the other root")
    terminal = Terminal(
        [sys.executable, "-m", "mission_tui"], cwd=quick.cwd, environ=quick.environ, columns=120, rows=30
    )
    try:
        terminal.shows("mine")
        until(lambda: " W " in terminal.text().splitlines()[0], 20, "the other root is named")
        terminal.press("W")
        if "Go to" in until(lambda: _chosen_or_there(terminal), 20):
            # Other tests' roots may be live, too.
            terminal.press(*"other/runs", "enter")
        assert "mine" not in terminal.shows("theirs").splitlines()[0]
        terminal.shows("presets and working folder are still those of")
        until(lambda: " W " in terminal.text().splitlines()[0], 20, "the first root is named there")
        terminal.press("q")
        assert terminal.process.wait(timeout=10) == 0
    finally:
        terminal.end()


def _chosen_or_there(terminal: Terminal) -> str:
    """The screen, once it asks where to go or has gone."""
    text = terminal.text()
    return text if "Go to" in text or "theirs" in text else ""
