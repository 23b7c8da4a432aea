"""A branch: a fresh training with the weights of a checkpoint, as far as they fit."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Any

from mission_tui.fleet.resume.verdict import Terms
from mission_tui.records.runs.attempt import write_terms
from mission_tui.trainer.state.boundary import Boundary
from mission_tui.trainer.state.checkpoint import load_checkpoint
from tests.trainer.harness import Ran, equal, new_run, run_attempt, spec_with, stop_in


def branched(path: Path, now: dict[str, Any], was: dict[str, Any] | None = None) -> tuple[Ran, Ran]:
    """A run stopped after three updates, and a branch of it with the tables `now`, stopped before its first update."""
    first = run_attempt(new_run(path / "source", spec_with(**was or {})), hook=stop_in("rollout", 3))
    name = first.ended().checkpoint
    assert name is not None
    run_dir = new_run(path / "branch", spec_with(**now))
    shutil.copytree(first.run_dir.checkpoints / name, run_dir.origin / name)
    run_dir.attempt(1).path.mkdir(parents=True)
    write_terms(run_dir.attempt(1).terms, Terms(weights_from=name))
    return first, run_attempt(run_dir, hook=stop_in("rollout", 0))


def boundary_of(ran: Ran) -> Boundary:
    """What the attempt saved last."""
    name = ran.ended().checkpoint
    assert name is not None
    return load_checkpoint(ran.run_dir.checkpoints / name).boundary


def test_a_branch_begins_with_the_weights_and_nothing_else(tmp_path: Path) -> None:
    """Parameters are the checkpoint's; Adam, steps and updates begin at nothing."""
    source, branch = branched(tmp_path, {"run": {"seed": 9}})
    assert equal(branch.parameters(), source.parameters())
    assert (branch.started().from_update, branch.started().from_timesteps) == (0, 0)
    assert boundary_of(branch).moments == {}


def test_layers_that_do_not_fit_begin_anew_and_are_named(tmp_path: Path) -> None:
    """Other observations: the first layers are fresh, the rest is taken over, and `effective.toml` says which."""
    source, branch = branched(tmp_path, {"env": {"id": "Acrobot-v1"}})
    was, now = source.parameters(), branch.parameters()
    same = [name for name in was if was[name].equal(now[name]) and name.endswith("weight")]
    assert same == ["value_net.weight"]
    why = tomllib.loads(branch.run_dir.attempt(1).effective.read_text())["reasons"]["model.parameters"]
    assert "fresh: " in why
    assert "mlp_extractor.policy_net.0.weight" in why


def test_statistics_come_along(tmp_path: Path) -> None:
    """The weights mean nothing without what normalised their inputs."""
    normal = {"env": {"normalize": True}}
    source, branch = branched(tmp_path, normal, normal)
    was, now = (boundary_of(ran).state["normalizer"]["obs"]["array"]["count"] for ran in (source, branch))
    assert now >= was > 100


def test_a_checkpoint_of_which_nothing_fits_is_refused(tmp_path: Path) -> None:
    """Nothing would be a branch of it."""
    _, branch = branched(tmp_path, {"env": {"id": "Pendulum-v1"}, "ppo": {"net_arch": [5, 6]}})
    assert branch.exit_code != 0
    assert "no weight of the checkpoint fits" in branch.ended().cause
