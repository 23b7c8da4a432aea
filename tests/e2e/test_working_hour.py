"""A working hour at the screen, compressed: what a person sees after each key, in a terminal that an emulator draws."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal
from tests.shell import REPOSITORY, STUB, Shell, opened
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
WAIT_S = 40.0


@pytest.fixture
def sick(tmp_path: Path) -> Iterator[Shell]:
    """A shell whose runs are too eager; `P` starts two of them."""
    with opened(tmp_path) as made:
        made.root.mkdir()
        own = tmp_path / ".config" / "mission-tui" / "presets"
        (own / "set.toml").write_text('key = "P"\nlaunch = ["tiny", "small"]\n')
        made.environ.update(MISSION_TUI_TRAINER=str(STUB), PYTHONPATH=str(REPOSITORY), STUB_UPDATE_S="0.1")
        made.environ.update(STUB_KL="0.5", TERM="xterm-256color")
        yield made


@contextmanager
def screen(fleet: Shell) -> Iterator[Terminal]:
    """The program on a fresh terminal, wide enough for a list with every column."""
    command = [sys.executable, "-m", "mission_tui"]
    terminal = Terminal(command, cwd=fleet.cwd, environ=fleet.environ, columns=110, rows=32)
    try:
        yield terminal
    finally:
        terminal.end()


def run_of(fleet: Shell, preset: str) -> str:
    """The id of the one run of a preset."""
    return next(str(run["id"]) for run in fleet.json("status")["runs"] if run["preset"] == preset)


def test_a_working_hour(sick: Shell) -> None:
    """Launch a set, read a finding, pause, stop, resume through the diff, kill, compare, replay, detach, reattach."""
    with screen(sick) as terminal:
        terminal.shows("No runs yet", WAIT_S)
        terminal.press("P")
        terminal.shows("▲ KL", WAIT_S, beside="2 live")
        both_t = time.time()
        tiny, small = run_of(sick, "tiny"), run_of(sick, "small")

        choose(terminal, tiny)
        terminal.press("h")
        terminal.shows("Esc back", WAIT_S)
        terminal.shows("every value beside its limits", WAIT_S)
        terminal.shows("advice end an update early, once", WAIT_S, beside="changed the policy too much")
        terminal.press("escape")
        terminal.shows("q leave", WAIT_S)

        terminal.press("p")
        terminal.shows("paused", WAIT_S)
        terminal.press("s")
        terminal.shows("stopped", WAIT_S)
        terminal.press("R")
        terminal.shows("with other settings", WAIT_S)
        terminal.press(*"ppo.n_epochs=1", "enter")
        terminal.shows("2 → 1", WAIT_S, beside="ppo.n_epochs")
        terminal.press("y")
        terminal.shows("resume accepted", WAIT_S)
        until(lambda: sick.view(tiny)["attempt"] == 2 and sick.view(tiny)["state"] == "running", 40, "it goes on")

        unfiltered(terminal, tiny)
        choose(terminal, small)
        terminal.press("K")
        terminal.shows("kill now", WAIT_S, beside=small[16:])
        terminal.press("y")
        terminal.shows("killed", WAIT_S)
        unfiltered(terminal, small)
        terminal.shows("1 ended", WAIT_S)
        terminal.press("\x1b[H", "space", "space")
        terminal.shows("2 marked", WAIT_S)
        terminal.press("c")
        terminal.shows("compare 2 runs", WAIT_S)
        terminal.shows("ppo.n_epochs", WAIT_S)
        terminal.press("escape")
        terminal.shows("q leave", WAIT_S)

        terminal.press("H")
        terminal.shows("REPLAY", WAIT_S)
        terminal.press("g")
        terminal.shows("Go to", WAIT_S)
        clock = time.strftime("%H:%M:%S", time.localtime(both_t))
        terminal.press(*clock, "enter")
        until(lambda: f"REPLAY {clock}" in terminal.text() and "2 live" in terminal.text(), 40, "as it was")
        terminal.press("K", "p", "H")
        terminal.shows("mission-tui ", WAIT_S)
        terminal.shows("1 ended", WAIT_S, beside="1 live")
        assert sick.view(tiny)["state"] == "running"
        terminal.hang_up()
        assert terminal.process.wait(timeout=10) is not None
    assert sick("stop", tiny).returncode == 0
    until(lambda: sick.view(tiny)["state"] == "ended", 40, "it ends while nobody looks")
    with screen(sick) as terminal:
        terminal.shows("away", WAIT_S)
        terminal.shows("stopped", WAIT_S, beside="2 ended")
        terminal.press("q")
        assert terminal.process.wait(timeout=10) == 0


def choose(terminal: Terminal, run: str) -> None:
    """Have the list hold this run alone."""
    name = run[16:]
    terminal.press("/", *name)
    terminal.shows(f" / {name}", WAIT_S)
    terminal.press("enter")
    until(lambda: f" / {name}" not in terminal.text() and f"/{name}" in terminal.text(), WAIT_S, "the line is closed")


def unfiltered(terminal: Terminal, run: str) -> None:
    """Have the list hold all runs again."""
    terminal.press("escape")
    until(lambda: f"/{run[16:]}" not in terminal.text(), WAIT_S, "the filter is gone")
