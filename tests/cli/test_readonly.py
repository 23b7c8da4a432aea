"""A colleague's runs, seen as another user: what may be read is shown, what may not is named, nothing is touched."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mission_tui.paths import socket_dir
from tests.e2e.terminal import Terminal
from tests.other_user import NOBODY, as_nobody, needs_another_user, shared_folder
from tests.shell import Shell, opened

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def colleague() -> Iterator[Shell]:
    """Runs of this user in a folder that others may read."""
    with shared_folder() as folder, opened(folder) as made:
        yield made.scripted()


def looking(colleague: Shell, *words: str) -> list[str]:
    """The words by which another user looks at them."""
    root = ["--readonly", "--runs-dir", str(colleague.root)]
    return as_nobody("-m", "mission_tui", *root, *words)


def let_in(colleague: Shell) -> None:
    """What docs/roots.md says to whoever wants to be looked at: nothing of ours is open to others by itself."""
    assert [path for path in files(colleague.root) if path.lstat().st_mode & 0o022] == []
    subprocess.run(["chmod", "-R", "go+rX", str(colleague.root)], check=True)


def his_environ(colleague: Shell) -> dict[str, str]:
    return colleague.environ | {"HOME": "/", "MISSION_TUI_LEDGER": "off"}


def look(colleague: Shell, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        looking(colleague, *words), cwd="/", env=his_environ(colleague), capture_output=True, text=True, timeout=60
    )


def files(root: Path) -> Sequence[Path]:
    return sorted(root.rglob("*"))


def own_files(colleague: Shell) -> Sequence[Path]:
    """What the supervisor keeps, but for what it writes by itself every few seconds."""
    return [path for path in files(colleague.root / ".supervisor") if "instruments" not in path.parts]


@pytest.mark.slow
@needs_another_user
def test_another_user_sees_runs_logs_metrics_and_findings(colleague: Shell) -> None:
    """A live run as it advances, and one that is closed to him by name with the reason; exit code 0."""
    shown, closed = colleague.launch("tiny", "-n", "2", "--name", "open")
    for run in (shown, closed):
        colleague.advancing(run)
    let_in(colleague)
    (colleague.root / closed).chmod(0o700)
    done = look(colleague, "status", "--json")
    assert done.returncode == 0, done.stderr
    views = {view["id"]: view for view in json.loads(done.stdout)["runs"]}
    assert (views[shown]["state"], views[shown]["update"] > 0) == ("running", True)
    assert "cannot be read from here" in views[closed]["cause"]
    assert "Permission denied" in views[closed]["cause"]
    assert "read from its files" in look(colleague, "status").stdout
    for words in (("logs", shown), ("metrics", shown), ("findings", shown), ("findings", shown, "--replay")):
        told = look(colleague, *words)
        assert (told.returncode, told.stderr) == (0, ""), words
    assert len(look(colleague, "metrics", shown).stdout.splitlines()) > 1
    assert "Permission denied" in look(colleague, "metrics", closed).stderr
    assert look(colleague, "wait", closed).returncode == 1
    assert colleague.view(shown)["state"] == "running"
    assert not [path for path in files(colleague.root) if path.lstat().st_uid == NOBODY]
    assert not (Path(f"/tmp/mission-tui-{NOBODY}") / socket_dir(colleague.root).name).exists()


@needs_another_user
def test_a_root_that_is_closed_is_refused_by_name(colleague: Shell) -> None:
    """One sentence and exit code 2; nothing is started."""
    colleague("status")
    colleague.root.chmod(0o700)
    done = look(colleague, "status")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"runs root {colleague.root} cannot be read: Permission denied" in done.stderr


@needs_another_user
def test_who_may_only_read_is_told_how(colleague: Shell) -> None:
    """Without --readonly a root that may be read but not written names the option; one that is closed does not."""
    colleague("status")
    words = as_nobody("-m", "mission_tui", "--runs-dir", str(colleague.root), "status")
    for mode, told in ((0o755, True), (0o700, False)):
        colleague.root.chmod(mode)
        done = subprocess.run(
            words, cwd="/", env=his_environ(colleague), capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert "cannot be written" in done.stderr
        assert ("put --readonly before the verb" in done.stderr) == told


@pytest.mark.slow
@needs_another_user
def test_the_screen_shows_them_and_changes_nothing(colleague: Shell) -> None:
    """In a real terminal of another user: the run advances, keys that act do nothing, `q` leaves no trace."""
    (run,) = colleague.launch("tiny", "--name", "theirs")
    colleague.advancing(run)
    let_in(colleague)
    before = own_files(colleague)
    terminal = Terminal(looking(colleague), cwd=Path("/"), environ=his_environ(colleague), columns=120, rows=30)
    try:
        terminal.shows("theirs")
        terminal.shows("shown from the run files")
        terminal.press("K", "s", "1")
        terminal.press("enter")
        terminal.shows("Esc back")
        terminal.press("escape")
        terminal.shows("q leave")
        terminal.press("q")
        assert terminal.process.wait(timeout=10) == 0
    finally:
        terminal.end()
    assert colleague.view(run)["state"] == "running"
    assert own_files(colleague) == before


@pytest.mark.slow
def test_looking_at_ones_own_files_starts_no_supervisor(quick: Shell) -> None:
    """With a verb, `--readonly` reads files whoever's they are."""
    (run,) = quick.launch("tiny")
    quick.advancing(run)
    quick.typed("supervisor", "stop")
    done = quick.typed("--readonly", "status", "--json")
    (view,) = json.loads(done.stdout)["runs"]
    assert (view["id"], view["state"]) == (run, "running")
    assert json.loads(done.stdout)["supervisor"]["pid"] is None
    assert quick.typed("supervisor", "status").returncode == 69
    refused = quick.typed("--readonly", "findings", run, "--silence", "kl-persistent")
    assert refused.returncode == 2
    assert "nothing can be changed" in refused.stderr
    assert quick.typed("stop", run).returncode == 0


def test_readonly_names_the_verbs_that_it_is_for(quick: Shell) -> None:
    """With one that changes something it is a mistake."""
    done = quick.typed("--readonly", "launch", "tiny")
    assert done.returncode == 2
    assert "works only with the screen (no verb) and with " in done.stderr
    assert {"status", "top", "logs", "replay"} <= {word.strip(" ,") for word in done.stderr.split()}
    assert not (quick.root / ".supervisor").exists()
