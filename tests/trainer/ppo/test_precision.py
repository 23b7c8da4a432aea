"""`run.precision = "bf16"`: layers multiply in bf16, and everything that is kept or judged stays float32."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from mission_tui.fleet.resume.judge import judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.records.runs.attempt import write_spec
from mission_tui.trainer.building.model import build_ppo, ppo_arguments
from mission_tui.trainer.ppo import FastPPO
from mission_tui.trainer.state.boundary import copy_moments
from mission_tui.trainer.state.checkpoint import load_checkpoint
from mission_tui.trainer.state.resume import restore_training
from mission_tui.trainer.vec_env import InlineVecEnv, build_vec_env
from tests.trainer.harness import Ran, equal, new_run, run_attempt, spec_with, stop_in
from tests.trainer.ppo.test_reference import CASES, LANES, build

BF16 = {"run": {"precision": "bf16"}}
FP32 = {"run": {"precision": "fp32"}}


def model_of(name: str) -> Any:
    """A model in bf16 that is ready for its first rollout."""
    model = build(FastPPO, InlineVecEnv, {**CASES[name], "precision": "bf16"})
    model._setup_learn(LANES * model.n_steps)
    return model


@pytest.mark.parametrize(
    "name", ["discrete", "continuous", "squashed gSDE", "several heads", "dictionary", "images", "rectified, unshared"]
)
def test_a_policy_of_any_kind_trains_in_bf16(name: str) -> None:
    """Three updates with finite signals; the first ratio of each is near 1, as both phases compute alike."""
    model = model_of(name)
    before = {key: value.clone() for key, value in model.policy.state_dict().items()}
    for _ in range(3):
        assert model.collect() is not None
        metrics = model.update().read(model)
        assert np.isfinite(list(metrics.values())).all()
        # bf16 has 8 bits; sums in another order may round a layer's output to its neighbour.
        assert metrics["train/ratio_first"] < 0.03
    after = model.policy.state_dict()
    assert {value.dtype for value in after.values()} == {th.float32}
    assert {value.dtype for value in copy_moments(model).values()} == {th.float32}
    assert {parameter.grad.dtype for parameter in model.policy.parameters()} == {th.float32}
    assert not equal(before, after)
    assert model.rollout_buffer.values.dtype == model.rollout_buffer.log_probs.dtype == np.float32


def test_layers_round_to_bf16_and_distributions_do_not() -> None:
    """What the last layer says has 8 bits; the log-probability made of it has all 24."""
    model = model_of("discrete")
    observation = th.randn(64, 4)
    logits = model.policy.action_net(model.policy.mlp_extractor.forward_actor(observation))
    assert th.equal(logits, logits.bfloat16().float())
    _, log_prob, _ = model.policy.evaluate_actions(observation, th.zeros(64))
    assert log_prob.dtype == th.float32
    assert not th.equal(log_prob, log_prob.bfloat16().float())


@pytest.mark.slow
def test_bf16_changes_what_is_computed() -> None:
    """With the same seed parameters differ from fp32's after an update, and not by much."""
    first, second = model_of("discrete"), build(FastPPO, InlineVecEnv, CASES["discrete"])
    for model in (first, second):
        model.learn(LANES * 32)
    theirs = second.policy.state_dict()
    assert not equal(first.policy.state_dict(), theirs)
    for name, mine in first.policy.state_dict().items():
        th.testing.assert_close(mine, theirs[name], rtol=0.0, atol=0.05)


def resumed(tmp_path: Path, was: dict[str, Any], now: dict[str, Any]) -> Ran:
    """Attempt 1 of `was` stopped after 3 updates, attempt 2 of `now` to the end."""
    run_dir = new_run(tmp_path / "run", spec_with(**was))
    first = run_attempt(run_dir, hook=stop_in("rollout", 3))
    own = run_dir.attempt(2).spec
    own.parent.mkdir(parents=True)
    write_spec(own, spec_with(**now))
    return run_attempt(run_dir, 2, first.ended().checkpoint)


@pytest.mark.parametrize(("was", "now"), [(FP32, BF16), (BF16, FP32)], ids=["to bf16", "to fp32"])
def test_a_checkpoint_goes_on_in_the_other_precision(was: dict[str, Any], now: dict[str, Any], tmp_path: Path) -> None:
    """It holds float32 only, so weights fit both ways; the run is continued, and the verdict is a note."""
    ran = resumed(tmp_path, was, now)
    assert ran.ended().how == "finished"
    assert not ran.started().exact
    assert {value.dtype for value in ran.parameters().values()} == {th.float32}
    effective = tomllib.loads(ran.run_dir.attempt(2).effective.read_text())
    assert effective["run"]["precision"] == now["run"]["precision"]
    assert effective["model"]["dtype"] == "float32"
    verdict = judge_resume(spec_with(**was), spec_with(**now), ResumeFacts(timesteps=192))
    assert verdict.grade == "note"
    assert "not exact" in verdict.changes[0].why


def test_a_run_in_bf16_resumes_exactly(tmp_path: Path) -> None:
    """On a CPU the same precision repeats the same numbers, whatever it rounds to."""
    whole = run_attempt(new_run(tmp_path / "whole", spec_with(**BF16)))
    ran = resumed(tmp_path, BF16, BF16)
    assert ran.started().exact
    assert equal(ran.parameters(), whole.parameters())


def test_a_checkpoint_from_before_there_was_a_choice_is_one_of_fp32(tmp_path: Path) -> None:
    """Its spec does not say a precision: in fp32 it goes on exactly."""
    run_dir = new_run(tmp_path / "run", spec_with())
    first = run_attempt(run_dir, hook=stop_in("rollout", 3))
    boundary = load_checkpoint(run_dir.checkpoints / str(first.ended().checkpoint)).boundary
    now = boundary.state["facts"]
    old = copy.deepcopy(now)
    del old["spec"]["run"]["precision"]
    boundary.state["facts"] = old
    assert restore_training(first_model(), boundary, now, 2)
    now["spec"]["run"]["precision"] = "bf16"
    assert not restore_training(first_model(), boundary, now, 2)


def first_model() -> Any:
    """The model of the tiny run before it stands anywhere."""
    spec = spec_with()
    return build_ppo(ppo_arguments(spec), build_vec_env(spec, None).vec, 3, "cpu")
