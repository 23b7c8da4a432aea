"""The door: what a terminal must be, what is set before Textual is imported, and what is imported when."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mission_tui.errors import UsageError
from mission_tui.tui import entry


@pytest.mark.parametrize("term", ["", "dumb"])
def test_a_dumb_terminal_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch, term: str, tmp_path: Path) -> None:
    """The sentence names the verb that works there."""
    monkeypatch.setenv("TERM", term)
    with pytest.raises(UsageError, match="mission-tui status"):
        entry.run(tmp_path, tuple, lambda name, words: [])


def test_a_pipe_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No escape sequence ever goes into a file."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", (tmp_path / "out").open("w"))
    with pytest.raises(UsageError, match="needs a terminal"):
        entry.run(tmp_path, tuple, lambda name, words: [])
    sys.stdout.close()


def test_over_ssh_there_are_fewer_frames_and_no_animations(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the person set stays; a local screen is as quick as it can be."""
    for name in ("TEXTUAL_FPS", "TEXTUAL_ANIMATIONS", "SSH_CONNECTION"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    entry._prepare(os.environ)
    assert "TEXTUAL_ANIMATIONS" not in os.environ
    assert os.environ["TEXTUAL_FPS"] == "240"
    monkeypatch.delenv("TEXTUAL_FPS")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")
    entry._prepare(os.environ)
    assert os.environ["TEXTUAL_FPS"] == "60"
    monkeypatch.setenv("TEXTUAL_FPS", "20")
    entry._prepare(os.environ)
    assert os.environ["TEXTUAL_ANIMATIONS"] == "none"
    assert os.environ["TEXTUAL_FPS"] == "20"
    assert "COLUMNS" not in os.environ


def test_leaving_says_how_many_runs_go_on() -> None:
    """So that nobody thinks leaving stopped them."""
    assert entry._exit_message(1) == "1 run goes on; mission-tui shows it again"
    assert entry._exit_message(3) == "3 runs go on; mission-tui shows them again"


def loaded_after(statement: str) -> set[str]:
    """The modules of a fresh interpreter after `statement`."""
    program = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=15)
    return set(done.stdout.split())


def test_the_door_imports_no_textual() -> None:
    """Its settings are read at import, so they must come first."""
    assert not {"textual", "rich", "torch", "numpy"} & loaded_after("import mission_tui.tui.entry")


def test_the_screen_imports_nothing_heavy() -> None:
    """Neither torch nor numpy stands before the first picture."""
    heavy = {"torch", "numpy", "stable_baselines3", "pynvml", "mission_tui.records"}
    assert not heavy & loaded_after("import mission_tui.tui.session")


def test_the_first_picture_waits_for_nothing_it_does_not_show() -> None:
    """Words of a command line, presets, verdicts, health rules, verbs, inputs and other screens are loaded later."""
    later = {
        "_hashlib",
        "click",
        "mission_tui.fleet.health",
        "mission_tui.fleet.resume.judge",
        "mission_tui.fleet.specs.schema",
        "mission_tui.tui.screens.run",
        "mission_tui.tui.verbs",
        "platformdirs",
        "shutil",
        "ssl",
        "statistics",
        "textual.command",
        "textual.widgets._input",
    }
    before = (
        "from mission_tui.tui.textual_fixes.loading import load_textual; load_textual(); import mission_tui.__main__"
    )
    early = later & loaded_after(f"{before}, mission_tui.cli.screen, mission_tui.tui.session")
    assert early <= loaded_after("pass"), "what no .pth file of this environment loads"


@pytest.mark.parametrize("stand_ins", ["it._STAND_INS", "dict.fromkeys(it._STAND_INS, ())"])
def test_what_stood_in_is_seen_by_nobody_else(stand_ins: str) -> None:
    """Whoever wants Textual's palette or a folder gets it; a Textual that takes more is loaded as it is."""
    load = f"import mission_tui.tui.textual_fixes.loading as it; it._STAND_INS = {stand_ins}; it.load_textual()"
    wanted = "import mission_tui.tui.session; from textual.command import CommandPalette; CommandPalette.is_open"
    also = "from platformdirs import user_cache_dir; from mimetypes import guess_type"
    assert {"textual.app", "textual.widgets._option_list"} <= loaded_after(f"{load}; {wanted}; {also}")
