"""`mission-tui` without a verb: the screen, and what is said where there is no terminal for it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mission_tui.cli import screen
from mission_tui.cli.screen import PreferencesFile
from mission_tui.cli.session import Session
from mission_tui.tui.entry import SessionResult
from mission_tui.tui.state.fleet_view_state import FleetViewState
from tests.e2e.terminal import Terminal
from tests.shell import Shell


def test_without_a_terminal_it_says_what_to_do_instead(shell: Shell) -> None:
    """In a pipe: one line that names the verbs that need no screen, exit 2, nothing started."""
    done = shell()
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "mission-tui status" in line
    assert "launch PRESET --wait" in line
    assert done.stdout == ""
    assert not shell.root.exists()


@pytest.mark.parametrize("term", ["dumb", "", None])
def test_a_dumb_terminal_gets_no_escape_sequences(shell: Shell, term: str | None) -> None:
    """With TERM dumb or unset nothing is drawn, though stdin and stdout are a terminal."""
    shell.environ.pop("TERM", None)
    if term is not None:
        shell.environ["TERM"] = term
    master, slave = pty.openpty()
    process = shell.start(stdin=slave, stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    _, err = process.communicate(timeout=20)
    os.close(master)
    assert process.returncode == 2
    assert "needs a terminal" in err
    assert f"set TERM, which is {term or 'not set'}, to its kind" in err
    assert "\x1b" not in err


def test_a_screen_that_changes_nothing_has_no_verbs(shell: Shell) -> None:
    """`--readonly` belongs to the screen; with a verb it is a mistake."""
    done = shell("--readonly", "stop", "--all")
    assert done.returncode == 2
    assert "--readonly" in done.stderr


def test_the_way_back_from_a_replay_leads_to_the_choice_before_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A replay lists no run that came later, so its own choice may be a neighbour; another runs root has its own."""
    left_at = [
        SessionResult(0, None, 0, str(tmp_path), 5.0, FleetViewState(chosen="live", marked={"live", "other"})),
        SessionResult(0, None, 0, str(tmp_path), None, FleetViewState(chosen="older")),
        SessionResult(0, None, 0, str(tmp_path / "elsewhere"), None, FleetViewState(chosen="live")),
        SessionResult(0, None, 0),
    ]
    begun: list[FleetViewState | None] = []

    def show(
        session: Session, greeting: str, replay_t: float | None = None, view_state: FleetViewState | None = None
    ) -> SessionResult:
        begun.append(view_state)
        return left_at[len(begun) - 1]

    monkeypatch.setattr(screen, "_show", show)
    monkeypatch.setattr(screen, "can_draw", lambda _environ: True)
    monkeypatch.setenv("MISSION_TUI_RUNS", str(tmp_path))
    screen.open_screen(Session.begin(None))
    chosen = [state and (state.chosen, state.marked) for state in begun]
    assert chosen == [None, ("live", {"live", "other"}), ("live", {"live", "other"}), None]


@pytest.mark.slow
@pytest.mark.tmux
@pytest.mark.timeout(60)
def test_leaving_the_screen_is_remembered(shell: Shell) -> None:
    """After `q` the moment is in the runs root, for the next screen to say what happened since; so is the look of it
    in the person's own folder, for the next screen to go on from.
    """
    seen = shell.root / ".supervisor" / "last-seen"
    look = PreferencesFile.of(shell.environ)
    for already, order in ((None, "run"), ("not a moment\n", "state")):
        if already is not None:
            seen.write_text(already)
        terminal = Terminal([sys.executable, "-m", "mission_tui"], cwd=shell.cwd, environ=shell.environ)
        try:
            terminal.shows("No runs yet")
            terminal.press(">", "q")
            assert terminal.process.wait(timeout=10) == 0
        finally:
            terminal.end()
        assert look.read() == {"sort": order}
        assert abs(time.time() - float(seen.read_text())) < 60


@pytest.mark.slow
@pytest.mark.tmux
@pytest.mark.timeout(60)
def test_an_onlooker_s_screen_leaves_nothing(shell: Shell) -> None:
    """What `serve` shows without `--control`: the owner still hears what happened, on the screen as they left it."""
    shell.environ["MISSION_TUI_SERVED"] = "1"
    (shell.root / ".supervisor").mkdir(parents=True)
    terminal = Terminal([sys.executable, "-m", "mission_tui", "--readonly"], cwd=shell.cwd, environ=shell.environ)
    try:
        terminal.shows("No runs")
        terminal.press(">", "q")
        assert terminal.process.wait(timeout=10) == 0
    finally:
        terminal.end()
    assert PreferencesFile.of(shell.environ).read() == {}
    assert not (shell.root / ".supervisor" / "last-seen").exists()
