"""Runs of SB3's other algorithms: the numbers of SB3's own `learn`, resumed exactly, given up half way, exported."""

from __future__ import annotations

import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.records.runs.attempt import write_spec
from mission_tui.trainer.building.model import action_noise, learner_arguments
from mission_tui.trainer.export import main as export
from mission_tui.trainer.state.checkpoint import load_checkpoint
from mission_tui.trainer.vec_env import build_vec_env
from tests.trainer.harness import Countdown, equal, new_run, run_attempt, stop_in
from tests.trainer.sb3_algorithms.cases import ALGORITHMS, KINDS, PERIOD, other_spec, short_periods
from tests.trainer.state.test_resume_exact import curves, leaves
from tests.trainer.test_live_settings import set_in

__all__ = ["short_periods"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("short_periods")]

needs_contrib = pytest.mark.skipif(find_spec("sb3_contrib") is None, reason="needs the `contrib` extra")


def theirs(algo: str) -> Any:
    """SB3's or sb3-contrib's own class."""
    other = OTHERS[algo]  # type: ignore[index]
    return getattr(pytest.importorskip(other.package), other.called)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_parameters_are_those_of_its_own_learn(algo: str, tmp_path: Path) -> None:
    """After the same steps with the same seed every weight is what the algorithm's own `learn` makes of it."""
    spec = other_spec(algo)
    ran = run_attempt(new_run(tmp_path / "run", spec))
    assert ran.exit_code == 0
    arguments = learner_arguments(spec)
    if "action_noise" in arguments:
        arguments["action_noise"] = action_noise(arguments["action_noise"], 1, 2)
    th.manual_seed(0)
    model = theirs(algo)(env=build_vec_env(spec, None).vec, seed=3, device="cpu", **arguments)
    model.learn(ran.ended().timesteps)
    assert model.num_timesteps == ran.ended().timesteps
    own = dict(model.policy.named_parameters()) | dict(model.policy.named_buffers())
    kept = {name: tensor for name, tensor in ran.parameters().items() if name != "log_ent_coef"}
    assert equal({name: tensor.detach() for name, tensor in own.items()}, kept)
    told = "train/step_size" if algo == "ars" else "loss"
    assert any(tag.startswith("train/") and tag.endswith(told) for tag in ran.updates()[-1].metrics)


@pytest.mark.parametrize("algo", KINDS)
def test_a_stopped_and_resumed_run_is_the_run_that_never_stopped(algo: str, tmp_path: Path) -> None:
    """Given up in the middle of its third period: replay buffer, moments, counters and curves go on bit for bit."""
    spec = other_spec(algo, env={"normalize": True})
    whole = run_attempt(new_run(tmp_path / "whole", spec))
    orders = Countdown(update=2, looks=9)
    run_dir = new_run(tmp_path / "cut", spec)
    first = run_attempt(run_dir, hook=orders.watch, orders=orders)
    assert first.ended().update in (2, 3)
    resumed = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert resumed.started().exact
    one, other = (
        load_checkpoint(ran.run_dir.checkpoints / str(ran.ended().checkpoint)).boundary for ran in (whole, resumed)
    )
    assert (one.update, one.timesteps) == (other.update, other.timesteps)
    assert equal(one.parameters, other.parameters)
    assert equal(one.moments, other.moments)
    left, right = dict(leaves(one.state)), dict(leaves(other.state))
    assert [path for path in left if not np.array_equal(left[path], right[path])] == []
    if OTHERS[algo].off_policy:  # type: ignore[index]
        assert one.replay_file is not None
        assert other.replay_file is not None
        with np.load(one.replay_file) as had, np.load(other.replay_file) as has:
            assert [name for name in had.files if not np.array_equal(had[name], has[name])] == []
    assert curves(whole) == curves(resumed)


def test_without_its_replay_buffer_a_resume_is_continued_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`keep.checkpoint.replay_buffer = false` leaves it out; what is collected first is not learned from."""
    spec = other_spec("sac", keep={"checkpoint": {"replay_buffer": False}}, run={"total_timesteps": 6 * PERIOD})
    run_dir = new_run(tmp_path / "run", spec)
    first = run_attempt(run_dir, hook=stop_in("rollout", 2))
    checkpoint = run_dir.checkpoints / str(first.ended().checkpoint)
    assert not (checkpoint / "replay.npz").exists()
    resumed = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert resumed.exit_code == 0
    assert not resumed.started().exact
    assert "continued, not exact, because of its replay buffer: it begins empty" in capsys.readouterr().err


def test_a_replay_buffer_of_another_size_keeps_its_newest_transitions(tmp_path: Path) -> None:
    """A resume with a smaller or larger buffer, or other environments side by side, goes on with what fits."""
    spec = other_spec("sac", run={"total_timesteps": 8 * PERIOD})
    run_dir = new_run(tmp_path / "run", spec)
    first = run_attempt(run_dir, hook=stop_in("rollout", 3))
    smaller = other_spec("sac", run={"total_timesteps": 8 * PERIOD}, sac={"buffer_size": 60}, env={"n_envs": 3})
    run_dir.attempt(2).spec.parent.mkdir(parents=True, exist_ok=True)
    write_spec(run_dir.attempt(2).spec, smaller)
    resumed = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert resumed.exit_code == 0
    assert not resumed.started().exact


@needs_contrib
def test_a_search_takes_its_schedules_over_between_two_updates(tmp_path: Path) -> None:
    """What was set counts from the next update on, and `effective.toml` has it."""
    words = "ars.delta_std=0.2", "ars.learning_rate=0.01"
    ran = run_attempt(new_run(tmp_path / "run", other_spec("ars")), hook=set_in("rollout", 1, *words))
    rows = [(row.metrics["train/delta_std"], row.metrics["train/learning_rate"]) for row in ran.updates()]
    assert rows == [(0.05, 0.02)] * 2 + [(0.2, 0.01)] * (len(rows) - 2)
    assert len(rows) > 2
    effective = tomllib.loads(ran.run_dir.attempt(1).effective.read_text("utf-8"))
    assert (effective["ars"]["delta_std"], effective["ars"]["learning_rate"]) == (0.2, 0.01)


@needs_contrib
def test_a_callback_ends_a_search_in_the_middle_of_an_iteration(tmp_path: Path) -> None:
    """As it ends every other training; the last whole iteration is what is saved."""
    ending = {"cls": "tests.trainer.own_parts:Ending", "kwargs": {"calls": 100}}
    ran = run_attempt(new_run(tmp_path / "run", other_spec("ars", run={"callbacks": [ending]})))
    ended = ran.ended()
    assert (ended.how, ended.cause) == ("finished", "run.callbacks[0] Ending ended it at 100 timesteps")
    assert [row.timesteps for row in ran.updates()] == [ended.timesteps]
    assert PERIOD <= ended.timesteps < 100


@pytest.mark.parametrize("algo", KINDS)
def test_an_export_is_opened_by_its_own_class(algo: str, tmp_path: Path) -> None:
    """Stock SB3 or sb3-contrib loads the zip: weights, counters and what is learned beside the policy."""
    ran = run_attempt(new_run(tmp_path / "run", other_spec(algo)))
    name = str(ran.ended().checkpoint)
    assert export([str(ran.run_dir.path), "--checkpoint", name, str(tmp_path / "model.zip")]) == 0
    model = theirs(algo).load(tmp_path / "model.zip", device="cpu")
    kept = ran.parameters()
    assert all(th.equal(kept[it], tensor) for it, tensor in model.policy.named_parameters())
    assert model.num_timesteps == ran.ended().timesteps
    if "log_ent_coef" in kept:
        assert th.equal(kept["log_ent_coef"], model.log_ent_coef)
