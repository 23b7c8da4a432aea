"""The recipes of CONTRIBUTING.md: what they say is enough, done to a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "mission_tui"

A_COMMAND = {
    "fleet/commands.py": (
        "CATALOGUE: tuple[Command, ...] = (",
        'CATALOGUE: tuple[Command, ...] = (_order("nap", "f9", "rest", "Let runs rest.", frozenset({"running"})),',
    ),
    "fleet/events/journal.py": ("ActVerb = Literal[", 'ActVerb = Literal["nap", '),
    "supervisor/verbs/acts.py": ('ACTS = {"stop": stop,', 'ACTS = {"nap": pause, "stop": stop,'),
}
"""What stands in the file, and what comes in its place."""

COMMAND_IS_THERE = """
import msgspec
from click.testing import CliRunner
from mission_tui.cli.root import cli
from mission_tui.fleet.commands import objection
from mission_tui.ipc.requests import Act
from mission_tui.supervisor.verbs.acts import ACTS
from mission_tui.tui.actions import ACTIONS
from mission_tui.tui.verbs import VERBS

assert "Let runs rest." in CliRunner().invoke(cli, ["--help"]).output
assert CliRunner().invoke(cli, ["nap", "--help"]).exit_code == 0
assert [action.keys for action in ACTIONS if action.name == "nap"] == [("f9",)]
assert "nap" in VERBS and "nap" in ACTS
assert objection("nap", (), "frozen") == "it is frozen"
act = Act(id=1, verb="nap", runs=("a",))
assert msgspec.json.decode(msgspec.json.encode(act), type=Act) == act
"""


def with_changes(folder: Path, changes: dict[str, tuple[str, str]]) -> Path:
    """A copy of the package in `folder` with `changes`."""
    shutil.copytree(PACKAGE, folder / "mission_tui", ignore=shutil.ignore_patterns("__pycache__"))
    for name, (before, after) in changes.items():
        path = folder / "mission_tui" / name
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, name
        path.write_text(text.replace(before, after), encoding="utf-8")
    return folder


@pytest.mark.slow
def test_a_command_is_added_in_three_files(tmp_path: Path) -> None:
    """Key, hint, menus, help, word and request come from its row; the supervisor has to be told what to do."""
    folder = with_changes(tmp_path, A_COMMAND)
    environ = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND_IS_THERE], env=environ, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len(A_COMMAND) <= 4
