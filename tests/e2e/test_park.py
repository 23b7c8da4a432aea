"""Freeze, park and resume with the real trainer: what they cost a training is time, and not one bit of it."""

from __future__ import annotations

import pytest

from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.state.boundary import Tensors
from mission_tui.trainer.state.checkpoint import load_checkpoint
from tests.shell import Shell
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

EXACT = ("--seed", "7", "--set", "run.total_timesteps=40k")


def launched(fleet: Shell, name: str) -> str:
    (run,) = fleet.json("launch", "tiny", "--name", name, *EXACT)["runs"]
    return str(run["id"])


def advanced(fleet: Shell, run: str, beyond: int = 0) -> int:
    """Wait until it has done more timesteps than that and is not done yet; how many."""

    def steps() -> int:
        found = fleet.view(run)
        assert found["state"] != "ended"
        return int(str(found["timesteps"] or 0))

    return until(lambda: (done := steps()) > beyond and done, 60, f"{run} advances")


def final(fleet: Shell, run: str) -> Tensors:
    """The tensors of its last checkpoint: policy and Adam's moments."""
    until(lambda: fleet.view(run)["outcome"] == "finished", 120)
    folder = RunDir(fleet.root / run).checkpoints
    newest = max(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    boundary = load_checkpoint(newest).boundary
    return boundary.parameters | {f"Adam: {name}": tensor for name, tensor in boundary.moments.items()}


def test_a_run_that_was_frozen_and_parked_equals_one_that_was_not(fleet: Shell) -> None:
    """Parameters and Adam's moments after the last update are equal bit for bit."""
    other, run = launched(fleet, "whole"), launched(fleet, "moved")
    done = advanced(fleet, run)
    # Its keeper may still wait for a busy disk to take down who trains.
    until(lambda: fleet.typed("freeze", run).returncode == 0, 30, "its trainer is known")
    assert fleet.view(run)["state"] == "frozen"
    fleet.json("resume", run)
    advanced(fleet, run, done)
    fleet.json("park", run)
    until(lambda: fleet.view(run)["state"] == "parked", 60)
    fleet.json("resume", run)
    whole, moved = final(fleet, other), final(fleet, run)
    assert fleet.view(run)["attempt"] == 2
    assert whole.keys() == moved.keys()
    assert {name for name in whole if not (whole[name] == moved[name]).all()} == set()
    assert any(name.startswith("Adam") for name in whole)
