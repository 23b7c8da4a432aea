"""Wrappers with arguments, stacked frames and images: the order of what is around an environment, and SB3's numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack, VecNormalize, VecTransposeImage
from stable_baselines3.common.vec_env.stacked_observations import StackedObservations

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, Spec
from mission_tui.records.runs.attempt import read_spec, write_spec
from mission_tui.trainer import export
from mission_tui.trainer.building.model import build_ppo, ppo_arguments
from mission_tui.trainer.playing import evaluate
from mission_tui.trainer.ppo.rollout_buffer import ResidentBuffer
from mission_tui.trainer.spaces import refusal, stacked
from mission_tui.trainer.vec_env import build_vec_env
from tests.trainer.harness import PROBES, alike, equal, new_run, run_attempt, spec_with, stop_in
from tests.trainer.own_envs import Scaled
from tests.trainer.sb3_run import sb3_learned, sb3_vec

pytestmark = pytest.mark.slow

OWN = "tests.trainer.own_envs"
SCALED = {"cls": f"{OWN}:Scaled", "kwargs": {"by": 3.0, "plus": 1.0}}
FILM: dict[str, dict[str, Any]] = {
    "env": {"id": "Film-v0", "imports": [OWN], "frame_stack": 3},
    "ppo": {"policy": "CnnPolicy", "n_steps": 8, "batch_size": 8, "n_epochs": 1},
    "run": {"total_timesteps": 48},
}
VECS: dict[str, dict[str, Any]] = {"inline": {"vec": "inline"}, "workers": {"vec": "workers", "n_workers": 2}}


@pytest.mark.parametrize("vec", VECS.values(), ids=VECS)
def test_wrappers_take_arguments_and_go_around_each_other_in_order(vec: dict[str, Any]) -> None:
    """The first one is nearest to the environment, in this process and in workers; Monitor is inside them all."""
    doubled = "tests.trainer.probe_envs:Doubled"
    for wrappers, reward in (([SCALED, doubled], 8.0), ([doubled, SCALED], 7.0)):
        spec = spec_with(env={"id": "Walk-v0", "n_envs": 2, "wrappers": wrappers, **PROBES, **vec})
        envs = build_vec_env(spec, None).vec
        try:
            envs.reset()
            for _ in range(10):
                _, rewards, _, infos = envs.step(np.zeros(2, dtype=np.int64))
                assert rewards.tolist() == [reward, reward]
            assert [info["episode"]["r"] for info in infos] == [10.0, 10.0]
        finally:
            envs.close()


@pytest.mark.parametrize(
    ("wrapper", "sentence"),
    [
        ({"cls": f"{OWN}:Scaled", "kwargs": {"by": 1, "pluss": 2}}, "unknown key env.wrappers[0].kwargs.pluss"),
        ({"cls": f"{OWN}:Scaled", "kwargs": {"by": 1, "pluss": 2}}, "did you mean 'plus'?"),
        ({"cls": f"{OWN}:Scaled"}, "env.wrappers[0].kwargs.by is missing"),
        ({"cls": f"{OWN}:Scald"}, "did you mean 'Scaled'?"),
    ],
)
def test_arguments_that_a_wrapper_does_not_take_are_named(wrapper: dict[str, Any], sentence: str) -> None:
    """With the nearest that it takes."""
    with pytest.raises(PresetError) as refused:
        build_vec_env(spec_with(env={"id": "Walk-v0", "wrappers": [wrapper], **PROBES}), None)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("engine", ["fast", "stock"])
@pytest.mark.parametrize("vec", VECS.values(), ids=VECS)
def test_a_stack_of_images_learns_what_it_learns_in_sb3(engine: str, vec: dict[str, Any], tmp_path: Path) -> None:
    """Stacked by SB3's own wrapper around its own vectorised environment, as in the zoo; convolutions round."""
    spec = spec_with(env=FILM["env"] | vec, ppo=FILM["ppo"], run=FILM["run"] | {"engine": engine})
    ran = run_attempt(new_run(tmp_path / "run", spec))
    assert ran.exit_code == 0
    stock = sb3_learned(spec, vec=VecFrameStack(sb3_vec("Film-v0", 2), 3)).policy.state_dict()
    for name, mine in ran.parameters().items():
        th.testing.assert_close(mine, stock[name], rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("engine", ["fast", "stock"])
def test_normalised_and_stacked_vectors_learn_what_they_learn_in_sb3(engine: str, tmp_path: Path) -> None:
    """Statistics are those of one frame, frames are stacked around them, wrappers are inside."""
    env = {"id": "Talking-v0", "imports": [OWN], "normalize": True, "frame_stack": 4, "wrappers": [SCALED]}
    spec = spec_with(env=env, run={"engine": engine})
    ran = run_attempt(new_run(tmp_path / "run", spec))
    vec: VecEnv = VecNormalize(sb3_vec("Talking-v0", 2, lambda made: Scaled(made, by=3.0, plus=1.0)), gamma=0.99)
    stock = sb3_learned(spec, vec=VecFrameStack(vec, 4))
    assert alike(ran.parameters(), dict(stock.policy.state_dict()), engine)


def test_images_stay_bytes_from_the_environment_to_the_minibatch() -> None:
    """In shared memory, in the stack and in the buffer, channels first behind SB3's own transposing."""
    spec = spec_with(env=FILM["env"] | VECS["workers"], ppo=FILM["ppo"])
    envs = build_vec_env(spec, None).vec
    try:
        assert isinstance(envs, VecFrameStack)
        model = build_ppo(ppo_arguments(spec), envs, 0, "cpu")
        assert isinstance(model.env, VecTransposeImage)
        assert isinstance(model.rollout_buffer, ResidentBuffer)
        observations = np.asarray(model.env.reset())
        assert (observations.dtype, observations.shape) == (np.dtype(np.uint8), (2, 3, 36, 40))
        model._setup_learn(0)
        model.collect()
        seen, _ = model.rollout_buffer.observations_and_actions()
        assert isinstance(seen, th.Tensor)
        assert (seen.dtype, tuple(seen.shape)) == (th.uint8, (16, 3, 36, 40))
    finally:
        envs.close()


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (36, 40, 1), np.uint8),
        spaces.Box(0, 255, (3, 36, 40), np.uint8),
        spaces.Box(-1.0, 2.0, (5,)),
        spaces.Dict({"a": spaces.Box(0, 255, (36, 40, 3), np.uint8), "b": spaces.Box(-1.0, 1.0, (2, 3))}),
    ],
)
def test_the_stacked_space_is_known_without_sb3(space: Any) -> None:
    """A preflight names the space that SB3's wrapper would make."""
    assert stacked(space, 4) == StackedObservations(1, 4, space).stacked_observation_space


@pytest.mark.parametrize(
    ("env", "ppo", "sentence"),
    [
        ({"id": "FrozenLake-v1", "frame_stack": 4}, {}, "env.frame_stack stacks arrays"),
        ({"id": "ImageWalk-v0", "frame_stack": 65, **PROBES}, {}, ""),
    ],
)
def test_what_cannot_be_stacked_is_refused(env: dict[str, Any], ppo: dict[str, Any], sentence: str) -> None:
    """In a sentence that names the key; frames are 1 to 64."""
    if not sentence:
        with pytest.raises(Exception, match="frame_stack"):
            spec_with(env=env, ppo=ppo)
        return
    with pytest.raises(PresetError, match=sentence):
        build_vec_env(spec_with(env=env, ppo=ppo), None)


def test_images_too_small_for_sb3s_network_are_refused_in_a_sentence() -> None:
    """Torch's own error speaks of kernels and paddings; a network of one's own may take them."""
    small = spaces.Box(0, 255, (35, 60, 3), np.uint8)
    sentence = refusal(small, spaces.Discrete(2), PpoSpec(policy="CnnPolicy"))
    assert sentence is not None
    assert "at least 36 x 36" in sentence
    own = PpoSpec(policy="CnnPolicy", policy_kwargs={"features_extractor_class": "a:B"})
    assert refusal(small, spaces.Discrete(2), own) is None


def test_one_frame_is_no_stack() -> None:
    """`frame_stack = 1` is what is without it, so that a list of values may hold it."""
    assert not isinstance(build_vec_env(spec_with(env={"frame_stack": 1}), None).vec, VecFrameStack)


def test_a_resume_in_the_middle_of_episodes_is_exact_with_frames(tmp_path: Path) -> None:
    """What the stack still shows is part of a checkpoint, so the rest is the same bit for bit."""
    spec = spec_with(env={"frame_stack": 3, "normalize": True})
    whole = run_attempt(new_run(tmp_path / "whole", spec))
    run_dir = new_run(tmp_path / "run", spec)
    first = run_attempt(run_dir, hook=stop_in("rollout", 2))
    second = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert second.started().exact
    assert equal(second.parameters(), whole.parameters())


def trained(path: Path, spec: Spec) -> Any:
    """The run directory of a finished run and its last checkpoint."""
    ran = run_attempt(new_run(path, spec))
    assert ran.exit_code == 0
    return ran.run_dir, ran.ended().checkpoint


@pytest.mark.parametrize("normalize", [False, {"obs": False}], ids=["raw", "normalised"])
def test_evaluating_and_exporting_show_the_policy_its_frames(
    normalize: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both build the environment as the training had it, and the zip is of the stacked space."""
    spec = spec_with(env=FILM["env"] | {"normalize": normalize}, ppo=FILM["ppo"], run=FILM["run"])
    run_dir, checkpoint = trained(tmp_path / "run", spec)
    words = [str(run_dir.path), "--checkpoint", checkpoint]
    assert evaluate.main([*words, "--episodes", "3", "--out", str(tmp_path / "result.json")]) == 0
    assert json.loads((tmp_path / "result.json").read_text())["lengths"] == {"mean": 7.0}
    assert export.main([*words, str(tmp_path / "out.zip")]) == 0
    loaded = stable_baselines3.PPO.load(tmp_path / "out.zip", device="cpu")
    assert loaded.observation_space.shape == (3, 36, 40)
    capfd.readouterr()


def test_a_spec_with_tables_for_wrappers_survives_its_file(tmp_path: Path) -> None:
    """Written and read again it is the same, arguments and all."""
    spec = spec_with(env={"wrappers": [SCALED, "a:B"], "frame_stack": 4}, run={"callbacks": [SCALED, "EvalCallback"]})
    write_spec(tmp_path / "spec.toml", spec)
    assert read_spec(tmp_path / "spec.toml") == spec
    assert isinstance(spec.env, EnvSpec)
