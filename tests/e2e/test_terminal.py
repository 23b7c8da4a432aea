"""The real program in a real terminal of 80x24, driven by keys and read as a person reads it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.terminal import Terminal
from tests.shell import Shell
from tests.waiting import until

pytestmark = pytest.mark.timeout(180)


@contextmanager
def screen(fleet: Shell) -> Iterator[Terminal]:
    """The program opened in a fresh terminal."""
    terminal = Terminal([sys.executable, "-m", "mission_tui"], cwd=fleet.cwd, environ=fleet.environ)
    try:
        yield terminal
    finally:
        terminal.end()


def live(fleet: Shell) -> list[str]:
    """Ids of the runs that train now."""
    return [run["id"] for run in fleet.views() if run["state"] == "running"]


def steps(fleet: Shell, run: str) -> int:
    """Timesteps of one run as `status` says them; 0 while unknown."""
    return int(fleet.view(run)["timesteps"] or 0)


def test_a_run_is_launched_watched_stopped_and_left_by_keys(fleet: Shell) -> None:
    """Key 1 trains, the share done rises, `s` stops with a checkpoint, `q` leaves, and no process stays."""
    with screen(fleet) as terminal:
        terminal.shows("No runs yet")
        terminal.press("1")
        terminal.shows("tiny-")
        (run,) = until(lambda: live(fleet), 30, "one run trains")
        first = until(lambda: steps(fleet, run), 20, "the run advances")
        until(lambda: steps(fleet, run) > first, 20, "the run goes on advancing")
        terminal.shows("%")
        terminal.press("s")
        terminal.shows("stopped", 30)
        terminal.press("q")
        assert terminal.process.wait(timeout=10) == 0
    (view,) = fleet.json("status")["runs"]
    assert (view["state"], view["outcome"]) == ("ended", "stopped")
    assert any((fleet.root / run / "checkpoints").glob("0*"))
    assert fleet("supervisor", "stop").returncode == 0
    until(lambda: not fleet.processes(), 15, "no process of this fleet is left")


def test_keys_that_come_at_once_behind_a_sheet_act_on_no_run(fleet: Shell) -> None:
    """`R` and what is typed for it come in one write: it stands in the line, whose `p` would pause the run, and is
    judged by a checkpoint that is saved for that; `s`, `q` and `x` stand in the next one.
    """
    with screen(fleet.scripted()) as terminal:
        terminal.shows("No runs yet")
        terminal.press("1")
        (run,) = until(lambda: live(fleet), 30, "one run trains")
        until(lambda: steps(fleet, run), 20, "the run advances")
        # The screen has the run too, which it may have later than the command line.
        terminal.shows("best ")
        terminal.press("Rppo.n_epochs=4\r")
        terminal.shows("asked: ppo.n_epochs=4")
        assert live(fleet) == [run]
        terminal.press("\x1b")
        until(lambda: fleet.view(run)["checkpoint_t"], 20, "the checkpoint is known")
        for _ in range(3):
            drawn = terminal.text()
            until(lambda drawn=drawn: terminal.text() != drawn, 20, "a newer picture")  # type: ignore[misc]
        terminal.press("Rsqx")
        terminal.shows("resume it with other settings", beside="sqx")
        assert live(fleet) == [run]


def test_a_lost_terminal_stops_nothing_and_a_new_one_shows_the_same_run(fleet: Shell) -> None:
    """When the pty goes away the screen leaves, the run goes on, and its record has no gap."""
    with screen(fleet.scripted()) as terminal:
        terminal.shows("No runs yet")
        terminal.press("1")
        (run,) = until(lambda: live(fleet), 30, "one run trains")
        before = until(lambda: steps(fleet, run), 20)
        terminal.hang_up()
        assert terminal.process.wait(timeout=20) is not None
    until(lambda: steps(fleet, run) > before, 20, "the run goes on without a terminal")
    with screen(fleet) as again:
        again.shows(run[-9:])
        again.press("q")
        again.process.wait(timeout=10)
        assert re.search(r"1 run goes on", again.text())
    numbers = [row["seq"] for row in fleet.rows(run)]
    assert numbers == list(range(1, len(numbers) + 1))
