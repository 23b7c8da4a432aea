"""`evaluate` from a shell: what a run was trained by counts, whatever was edited since; what is damaged is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mission_tui.envs import mission_files
from mission_tui.records.runs.attempt import read_launch
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.seal import Seals
from tests.shell import Shell

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

PRESET = """
[env]
id = "MissionGym-v0"
config = "field"
n_envs = 2
vec = "inline"
normalize = true
wrappers = ["shaping:Halved"]
[ppo]
n_steps = 64
batch_size = 64
n_epochs = 1
[run]
total_timesteps = 256
device = "cpu"
"""
WRAPPER = """
import gymnasium
class Halved(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward * {factor}
"""


def trained(shell: Shell) -> str:
    """A finished run on a mission, a preset and a wrapper that all lie in the working folder."""
    (shell.cwd / "field").mkdir()
    for file in mission_files("demo"):
        shutil.copy(file, shell.cwd / "field")
    (shell.cwd / "presets" / "own.toml").write_text(PRESET)
    (shell.cwd / "shaping.py").write_text(WRAPPER.format(factor=0.5))
    (run,) = shell.launch("own")
    done = shell("wait", run, timeout_s=90)
    assert done.returncode == 0, done.stderr
    return run


def played(shell: Shell, run: str) -> dict[str, Any]:
    """The result without what another evaluation of the same cannot have."""
    found = shell.json("evaluate", run, "--episodes", "4", "--stochastic", timeout_s=60)
    return {name: value for name, value in found.items() if name != "seconds"}


def edit(folder: Path) -> None:
    """Every number of every file in the folder becomes another one."""
    for file in folder.glob("*.toml"):
        file.write_text(file.read_text().replace("1", "2").replace("5", "7"))


def test_edits_after_the_start_change_no_number_and_damage_is_refused(shell: Shell) -> None:
    """Mission, preset and rewards edited: the same to the last digit. The source edited, or what the run keeps damaged:
    refused by its name, and nothing is written.
    """
    run = trained(shell.preloaded())
    first = played(shell, run)
    edit(shell.cwd / "field")
    edit(shell.cwd / "presets")
    edit(shell.cwd / ".config" / "mission-tui" / "presets")
    assert played(shell, run) == first
    (shell.cwd / "shaping.py").write_text(WRAPPER.format(factor=2.0))
    folder = shell.root / run
    written = set((folder / "evaluations").iterdir())
    refused = shell("evaluate", run)
    assert refused.returncode == 2
    assert "source of module shaping is " in refused.stderr
    (shell.cwd / "shaping.py").write_text(WRAPPER.format(factor=0.5))
    for name in ("snapshot/rewards.toml", f"checkpoints/{first['checkpoint']}/state.npz"):
        file = folder / name
        whole = file.read_bytes()
        file.write_bytes(whole.replace(b"0", b"1", 1) if name.endswith(".toml") else whole[:-7])
        refused = shell("evaluate", run)
        assert (refused.returncode, refused.stdout) == (1, ""), name
        assert file.name in refused.stderr
        file.write_bytes(whole)
    assert set((folder / "evaluations").iterdir()) == written
    launched = read_launch(folder / "attempts" / "1" / "launch.json")
    assert launched is not None
    Seals.of(shell.environ).write_order(RunDir(folder), structs.replace(launched, cwd="/nowhere"))
    refused = shell("evaluate", run, "--accept")
    assert refused.returncode == 2
    assert "was launched in /nowhere, which is gone, and code of its own may come from there" in refused.stderr
    Seals.of(shell.environ).write_order(RunDir(folder), launched)
    assert played(shell, run) == first
