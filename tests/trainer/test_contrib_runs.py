"""Runs of MaskablePPO and RecurrentPPO: resumed exactly, evaluated, exported, and refused where they cannot train."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mission_tui.fleet.specs.spec import Spec
from mission_tui.trainer.building.model import build_ppo
from mission_tui.trainer.export import main as export
from mission_tui.trainer.state.checkpoint import load_checkpoint
from mission_tui.trainer.vec_env import build_vec_env
from tests.trainer.contrib_cases import MASKABLE, RECURRENT, needs_contrib, theirs
from tests.trainer.harness import Countdown, equal, new_run, order_in, run_attempt, spec_with, stop_in
from tests.trainer.playing.test_evaluate import evaluated, trained
from tests.trainer.state.test_resume_exact import curves, leaves

pytestmark = needs_contrib

DOORS = {"imports": ["tests.trainer.masked_envs"]}
ALGORITHMS = {"maskable": MASKABLE, "recurrent": RECURRENT}
LIVED_IN = [
    ("maskable", "native"),
    *((name, vec) for name in ALGORITHMS for vec in ("inline", "workers")),
]


def spec_of(tables: dict[str, dict[str, Any]], **more: dict[str, Any]) -> Spec:
    """A tiny run of an algorithm with other keys besides."""
    names = {*tables, *more}
    return spec_with(**{name: tables.get(name, {}) | more.get(name, {}) for name in names})


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "vec"), LIVED_IN)
def test_a_resumed_run_is_the_run_that_never_stopped(algo: str, vec: str, tmp_path: Path) -> None:
    """Parameters, moments, generators, environments, what LSTMs remember, counters and curves, bit for bit."""
    workers = {"n_workers": 2} if vec == "workers" else {}
    spec = spec_of(ALGORITHMS[algo], env={"vec": vec, "normalize": True} | workers)
    whole = run_attempt(new_run(tmp_path / "whole", spec))
    run_dir = new_run(tmp_path / "resumed", spec)
    first = run_attempt(run_dir, hook=stop_in("rollout", 3))
    resumed = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert resumed.started().exact
    one, other = (
        load_checkpoint(ran.run_dir.checkpoints / str(ran.ended().checkpoint)).boundary for ran in (whole, resumed)
    )
    assert (one.update, one.timesteps) == (other.update, other.timesteps) == (6, 384)
    assert equal(one.parameters, other.parameters)
    assert equal(one.moments, other.moments)
    left, right = dict(leaves(one.state)), dict(leaves(other.state))
    assert left.keys() == right.keys()
    assert any(path.startswith("/memory/pi") for path in left) == (algo == "recurrent")
    assert [path for path in left if not np.array_equal(left[path], right[path])] == []
    assert curves(whole) == curves(resumed)


@pytest.mark.slow
@pytest.mark.parametrize("tables", ALGORITHMS.values(), ids=ALGORITHMS)
def test_an_update_given_up_half_way_costs_nothing(tables: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """A stop in the middle of an update saves the boundary before it, and the resume is exact."""
    spec = spec_of(tables, env={"vec": "inline"})
    whole = run_attempt(new_run(tmp_path / "whole", spec))
    orders = Countdown(update=2, looks=3)
    run_dir = new_run(tmp_path / "cut", spec)
    first = run_attempt(run_dir, hook=orders.watch, orders=orders)
    assert first.ended().update == 2
    resumed = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert resumed.started().exact
    assert equal(whole.parameters(), resumed.parameters())


@pytest.mark.parametrize("tables", ALGORITHMS.values(), ids=ALGORITHMS)
def test_what_really_runs_is_on_record(tables: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """Algorithm, engine and the reason, and sb3-contrib's version, in the attempt's file and in its checkpoints."""
    ran = run_attempt(new_run(tmp_path / "run", spec_of(tables, run={"total_timesteps": 64})))
    effective = tomllib.loads(ran.run_dir.attempt(1).effective.read_text())
    assert effective["ppo"]["algo"] == tables["ppo"]["algo"]
    assert effective["run"]["engine"] == "stock"
    assert "sb3-contrib" in effective["reasons"]["run.engine"]
    facts = load_checkpoint(ran.run_dir.checkpoints / "000000064").boundary.state["facts"]
    assert facts["versions"]["sb3_contrib"] == effective["host"]["sb3_contrib"]


@pytest.mark.slow
def test_a_checkpoint_on_request_is_a_boundary_of_its_own(tmp_path: Path) -> None:
    """Asked for while it trains, a recurrent run saves and goes on to the same end."""
    spec = spec_of(RECURRENT)
    whole = run_attempt(new_run(tmp_path / "whole", spec))
    asked = run_attempt(new_run(tmp_path / "asked", spec), hook=order_in("rollout", 2, "checkpoint"))
    assert [save.timesteps for save in asked.saves()] == [192, 384]
    assert equal(whole.parameters(), asked.parameters())


@pytest.mark.parametrize("vec", ["inline", "workers"])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("short", "action_masks() has 3 entries, and"),
        ("none", "allows no action; one at least must be allowed"),
        ("raise", "raised LookupError: the keys are gone"),
    ],
)
def test_a_wrong_mask_ends_the_run_as_the_environments_fault(vec: str, kind: str, said: str, tmp_path: Path) -> None:
    """The sentence says which environment offers what it must not, and the last boundary is kept."""
    env = {"id": "WrongDoors-v0", "kwargs": {"kind": kind}, "config": None, "vec": vec, "n_workers": 2, **DOORS}
    ran = run_attempt(new_run(tmp_path / "run", spec_of(MASKABLE, env=env)))
    failure = ran.ended()
    assert (ran.exit_code, failure.failure) == (1, "env")
    assert said in str(failure.cause)


def test_measuring_a_step_takes_allowed_actions_only(tmp_path: Path) -> None:
    """With `env.vec` left open the environment is tried first, and doors that are shut stay shut."""
    env = {"id": "MultiDoors-v0", "config": None, "vec": "auto", **DOORS}
    ran = run_attempt(new_run(tmp_path / "run", spec_of(MASKABLE, env=env, run={"total_timesteps": 64})))
    assert ran.ended().how == "finished"
    assert "one step takes" in tomllib.loads(ran.run_dir.attempt(1).effective.read_text())["reasons"]["env.vec"]


@pytest.mark.parametrize("use_masking", [True, False])
@pytest.mark.parametrize("vec", ["native", "inline"])
def test_sb3_contribs_own_evaluation_plays_several_lanes(vec: str, use_masking: bool, tmp_path: Path) -> None:
    """`MaskableEvalCallback` asks two environments for their masks; each lane of a batch gets its own."""
    evaluating = {
        "cls": "sb3_contrib.common.maskable.callbacks:MaskableEvalCallback",
        "kwargs": {
            "eval_env": {"vec": vec, "n_envs": 2, "kwargs": {"overrides": {"rules": {"time_limit_s": 5.0}}}},
            "eval_freq": 8,
            "n_eval_episodes": 2,
            "use_masking": use_masking,
            "verbose": 0,
        },
    }
    spec = spec_of(MASKABLE, run={"total_timesteps": 64, "callbacks": [evaluating]})
    ran = run_attempt(new_run(tmp_path / "run", spec))
    assert (ran.ended().how, ran.ended().cause) == ("finished", "")


def test_an_environment_without_masks_is_refused(tmp_path: Path) -> None:
    """CartPole allows every action always, and says so to nobody."""
    ran = run_attempt(new_run(tmp_path / "run", spec_of(MASKABLE, env={"id": "CartPole-v1", "config": None})))
    assert ran.exit_code == 78
    assert "asks it for action_masks() before every step" in str(ran.ended().cause)


@pytest.mark.parametrize("use_masking", [True, False])
def test_sb3_contribs_own_evaluation_plays_with_masks_and_without(use_masking: bool, tmp_path: Path) -> None:
    """`MaskableEvalCallback` gets an environment like the run's, and actions from the model under its masks."""
    evaluating = {"n_eval_episodes": 2, "eval_freq": 40, "verbose": 0, "use_masking": use_masking}
    callback = {"cls": "sb3_contrib.common.maskable.callbacks:MaskableEvalCallback", "kwargs": evaluating}
    ran = run_attempt(new_run(tmp_path / "run", spec_of(MASKABLE, run={"callbacks": [callback]})))
    assert ran.ended().how == "finished", ran.ended().cause
    assert any("eval/mean_reward" in row.metrics for row in ran.updates())


@pytest.mark.parametrize("policy", ["trained", "random"])
def test_evaluation_plays_allowed_actions_only(policy: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Doors raise at any other; stochastic, trained and random policies open none that is shut."""
    for env_id in ("Doors-v0", "MultiDoors-v0", "Switches-v0"):
        env = {"id": env_id, "config": None, **DOORS}
        run_dir, name = trained(tmp_path / env_id, env=env, ppo=MASKABLE["ppo"], run={"total_timesteps": 64})
        words = ("--episodes", "8", "--stochastic", "--policy", policy)
        assert evaluated(run_dir, name, capfd, *words)["episodes"] == 8


def test_a_player_remembers_an_episode_and_forgets_it_at_the_next() -> None:
    """The same observation is answered by what came before it in this episode, and by nothing that came before that."""
    spec = spec_of(RECURRENT, env={"id": "Pendulum-v1", "n_envs": 1})
    from mission_tui.trainer.building.model import ppo_arguments

    model = build_ppo(ppo_arguments(spec), build_vec_env(spec, None).vec, 0, "cpu", "recurrent_ppo")
    assert model.env is not None
    player = model.player(model.env, deterministic=True)
    seen = [np.full((1, 3), value, dtype=np.float32) for value in (1.0, -1.0)]
    start, on = np.array([True]), np.array([False])
    fresh = player(seen[0], start)
    player(seen[1], on)
    later, again = player(seen[0], on), player(seen[0], start)
    assert not np.array_equal(fresh, later)
    np.testing.assert_array_equal(fresh, again)


@pytest.mark.parametrize("tables", ALGORITHMS.values(), ids=ALGORITHMS)
def test_sb3_contrib_opens_the_export_and_plays_the_same(
    tables: dict[str, dict[str, Any]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its own `load` opens the zip, and its policy has the checkpoint's parameters and moments."""
    algo = tables["ppo"]["algo"]
    ran = run_attempt(new_run(tmp_path / "run", spec_of(tables, run={"total_timesteps": 64})))
    capfd.readouterr()
    file = tmp_path / "model.zip"
    assert export([str(ran.run_dir.path), "--checkpoint", "000000064", str(file)]) == 0
    assert json.loads(capfd.readouterr().out)["result"]["path"] == str(file)
    loaded = theirs(algo).load(file, device="cpu")
    boundary = load_checkpoint(ran.run_dir.checkpoints / "000000064").boundary
    assert equal(dict(loaded.policy.named_parameters()), boundary.parameters)
    assert all(int(state["step"]) > 0 for state in loaded.policy.optimizer.state.values())
    assert (loaded.num_timesteps, loaded.n_envs, loaded.n_steps) == (64, 2, 32)
