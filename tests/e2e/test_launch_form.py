"""The launch form in a real terminal over a real supervisor: a change completed, priced, saved and started by keys."""

from __future__ import annotations

import pytest

from tests.e2e.terminal import Terminal
from tests.e2e.test_terminal import screen
from tests.shell import Shell
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def ended(fleet: Shell) -> list[str]:
    """Names of the runs that are over."""
    return [run["name"] for run in fleet.views() if run["state"] == "ended"]


def write(terminal: Terminal, *keys: str) -> None:
    """Open the form and type the change, its key by its letters, with Tab between."""
    terminal.press("n")
    terminal.shows("rollout 4 x 64 = 256")
    terminal.press("\t", *"n_st")
    terminal.shows("Tab ppo.n_steps=")
    terminal.press("\t", *"32", *keys)
    terminal.shows("rollout 4 x 32 = 128")


def test_a_run_is_changed_priced_saved_and_started_from_the_form(fleet: Shell) -> None:
    """At first nothing like it ran here; afterwards its pace is named. What is saved is a preset for `launch` too."""
    own = fleet.scripted().cwd / ".config"
    with screen(fleet) as terminal:
        terminal.shows("No runs yet")
        write(terminal, "\r", *"run.total_timesteps=1280", "\t", *"calm-run")
        terminal.shows("never run here")
        terminal.shows("begins now")
        terminal.press("\x13")
        until(lambda: ended(fleet) == ["calm-run"], 60, "the run that was started is over")
        write(terminal)
        terminal.shows("as calm-run")
        terminal.press("\x0f")
        terminal.shows("Save tiny with these changes")
        terminal.press(*"calm", "\r")
        terminal.shows(">calm")
        terminal.press("\x1b")
        until(lambda: "New run" not in terminal.text(), 15, "the form is gone")
        terminal.press("q")
        assert terminal.process.wait(timeout=20) == 0
    (spec,) = fleet.root.glob("*/spec.toml")
    assert "n_steps = 32" in spec.read_text()
    assert "n_steps = 32" in (own / "mission-tui" / "presets" / "calm.toml").read_text()
    said = fleet.json("launch", "calm", "--dry-run", "--json")
    assert said["runs"][0]["preset"] == "calm"
