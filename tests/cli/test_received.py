"""A folder from somewhere else, with a `runs/` in it: looked at from the command line, refused, and adopted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from mission_tui.cli.session import Session
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from mission_tui.paths import socket_dir
from mission_tui.records.runs.layout import RunDir
from tests.e2e.terminal import Terminal
from tests.shell import Shell, opened
from tests.supervisor.foreign import ForeignRoot
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
SEALLESS = re.compile("does not carry your seal".replace(" ", r"(?: |\s*\n.*?\s)"))
"""In a box beside other things: where its lines break depends on how long the path of the runs root is."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell in a cloned folder; nothing says where its runs root is."""
    with opened(tmp_path) as made:
        made.environ.pop("MISSION_TUI_RUNS", None)
        yield made


@pytest.fixture
def received(shell: Shell, tmp_path: Path, bystanders: list[subprocess.Popen[bytes]]) -> ForeignRoot:
    """What came in its `runs/`."""
    spec = Spec(
        preset="tiny",
        env=EnvSpec(id="CartPole-v1", n_envs=4, vec="inline"),
        ppo=PpoSpec(n_steps=64, batch_size=64, n_epochs=2),
        run=RunSpec(total_timesteps=512),
    )
    made = ForeignRoot(shell.root, tmp_path / "marks", spec)
    made.every_road([process.pid for process in bystanders])
    return made


def test_looking_reads_the_files_and_says_so(
    shell: Shell, received: ForeignRoot, bystanders: list[subprocess.Popen[bytes]]
) -> None:
    """No supervisor is started, nothing is written, nothing runs; every run is shown as foreign."""
    before = sorted(shell.root.rglob("*"))
    for words in (("status",), ("findings",), ("metrics", "failed"), ("logs", "failed"), ("--readonly", "status")):
        looked = shell.typed(*words)
        assert looked.returncode == 0, (words, looked.stderr)
    document = json.loads(shell.typed("status", "--json").stdout)
    assert sorted(view["id"] for view in document["runs"]) == sorted(received.made)
    assert all("foreign" in view["flags"] for view in document["runs"])
    said = shell.typed("status").stderr
    assert "does not carry your seal" in said
    assert "mission-tui adopt --all" in said
    assert "seal" not in shell.typed("judge", "runs", "-r").stderr  # which needs no runs root
    for words in (("launch", "tiny"), ("resume", "failed"), ("evaluate", "failed"), ("check", "tiny"), ("clean",)):
        acted = shell.typed(*words)
        assert acted.returncode == 2, (words, acted.stderr)
        assert "shown read-only" in acted.stderr
    assert sorted(shell.root.rglob("*")) == before
    assert not socket_dir(shell.root).exists()
    assert received.ran() == []
    assert [process.poll() for process in bystanders] == [None, None]


def test_a_long_log_is_read_over_one_connection(shell: Shell, received: ForeignRoot) -> None:
    """Each is a process that reads every run first: one for each piece would take minutes for some megabytes."""
    lines = [f"line {number} {'x' * 90}" for number in range(10_000)]
    written = RunDir(shell.root / received.made[2]).attempt(1).output
    written.write_text("\n".join(lines) + "\n")
    with mock.patch.object(Session, "connect", autospec=True, side_effect=Session.connect) as connected:
        assert shell.typed("logs", received.made[2]).stdout.splitlines() == lines
    assert connected.call_count == 1


def test_a_foreign_run_is_not_passed_on(shell: Shell, received: ForeignRoot) -> None:
    """Its files would say which of this user's are sent, and to what place of a tracker."""
    before = sorted((shell.root / received.made[2]).rglob("*"))
    refused = shell.typed("--runs-dir", str(shell.root), "track", "failed", "--to", "tensorboard")
    assert refused.returncode == 1
    assert "cannot track failed, which is foreign: " in refused.stderr
    assert sorted((shell.root / received.made[2]).rglob("*")) == before


def test_the_screen_looks_as_well(shell: Shell, received: ForeignRoot) -> None:
    """It shows the runs, offers no key that acts, and starts no supervisor."""
    before = sorted(shell.root.rglob("*"))
    screen = [sys.executable, "-m", "mission_tui"]
    terminal = Terminal(screen, cwd=shell.cwd, environ=shell.environ, columns=160, rows=40)
    try:
        until(lambda: SEALLESS.search(terminal.text()) is not None, 15, "the screen says whose root it is")
        terminal.shows("restarts")
        terminal.press("1", "K", "r", "q")
        terminal.process.wait(timeout=15)
    finally:
        terminal.end()
    assert sorted(shell.root.rglob("*")) == before
    assert received.ran() == []


def test_after_adoption_the_same_root_works(
    shell: Shell, received: ForeignRoot, bystanders: list[subprocess.Popen[bytes]]
) -> None:
    """The sheet names what would run; `--trust` takes it, and the root is this user's from then on."""
    sheet = shell.typed("adopt", "failed")
    assert sheet.returncode == 0
    assert f"touch {received.marks / 'failed-order'}" in sheet.stdout
    assert "CartPole-v1" in sheet.stdout
    assert "nothing was adopted" in sheet.stderr
    assert "does not carry your seal" in shell.typed("status").stderr
    adopted = shell.scripted().json("adopt", "queued", "failed", "--trust")
    assert (adopted["adopted"], len(adopted["runs"])) == (True, 2)
    until(lambda: "queued-order" in received.ran(), 20, "the adopted run begins")
    assert "does not carry your seal" not in shell.typed("status").stderr
    flags = {view["name"]: view["flags"] for view in shell.json("status")["runs"]}
    assert "foreign" not in flags["failed"]
    assert "foreign" in flags["unbegun"]
    (made,) = shell.launch("tiny", "--set", "run.total_timesteps=256")
    until(lambda: shell.view(made)["outcome"] == "finished", 60, made)
    assert [process.poll() for process in bystanders] == [None, None]


def test_an_empty_folder_for_runs_is_used_at_once(shell: Shell) -> None:
    """A checkout with a `runs/` that holds nothing but its `.gitignore` needs no question."""
    shell.root.mkdir(exist_ok=True)
    (shell.root / ".gitignore").write_text("*\n")
    (made,) = shell.scripted().launch("tiny", "--set", "run.total_timesteps=256")
    assert "does not carry your seal" not in shell.typed("status").stderr
    until(lambda: shell.view(made)["outcome"] == "finished", 60, made)


def test_a_secret_that_cannot_be_used_keeps_nobody_from_looking(shell: Shell, received: ForeignRoot) -> None:
    """Every verb that looks says what is wrong with it and looks; whoever acts is told the same."""
    shell.environ["XDG_STATE_HOME"] = str(shell.cwd / "state")
    key = shell.cwd / "state" / "mission-tui" / "seal.key"
    key.parent.mkdir(parents=True)
    key.write_bytes(b"x")
    for words in (("status",), ("paths",), ("findings",), ("--readonly", "status")):
        looked = shell.typed(*words)
        assert looked.returncode == 0, (words, looked.stderr)
    assert "which seals your runs, is not a file of yours" in shell.typed("status").stderr
    acted = shell.typed("resume", "failed")
    assert acted.returncode == 2
    assert "which seals your runs, is not a file of yours" in acted.stderr
    assert received.ran() == []
