"""Zips that SAC, TD3, DQN and A2C of stock SB3, and ARS of sb3-contrib, have saved, as settings and as checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch as th
from stable_baselines3.common.noise import NormalActionNoise

from mission_tui.errors import CheckpointError
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.sb3_run.zip_file import settings_of_zip, tables_of_zip
from mission_tui.trainer.import_checkpoint import foreign_boundary, model_for, read_foreign
from mission_tui.trainer.vec_env import build_vec_env

pytestmark = pytest.mark.slow
REPLAYED: dict[str, Any] = {"learning_starts": 20, "buffer_size": 100, "batch_size": 16}
CASES = {
    "sac": ("Pendulum-v1", {**REPLAYED, "gamma": 0.98}),
    "td3": ("Pendulum-v1", {**REPLAYED, "action_noise": NormalActionNoise(np.zeros(1), 0.25 * np.ones(1))}),
    "ddpg": ("Pendulum-v1", REPLAYED),
    "dqn": ("CartPole-v1", {**REPLAYED, "tau": 0.5}),
    "a2c": ("CartPole-v1", {"vf_coef": 0.25}),
    "ars": ("CartPole-v1", {"n_delta": 2, "delta_std": 0.2}),
}


def saved(algo: str, folder: Path) -> tuple[Any, Path, Spec]:
    """A model that has learned a little, its zip, and the spec that the zip's own words make."""
    env_id, arguments = CASES[algo]
    cls = getattr(pytest.importorskip(OTHERS[algo].package), algo.upper())  # type: ignore[index]
    model = cls("MlpPolicy", env_id, seed=1, device="cpu", policy_kwargs={"net_arch": [8]}, **arguments)
    model.learn(60)
    model.save(folder / "model.zip")
    notes: list[str] = []
    tables = tables_of_zip(settings_of_zip(folder / "model.zip"), "model.zip", notes)
    tables["env"] |= {"id": env_id, "vec": "inline"}
    assert all("train_freq" in note for note in notes)
    return model, folder / "model.zip", msgspec.convert({"preset": "imported", **tables}, Spec)


@pytest.mark.parametrize("algo", CASES)
def test_a_zip_becomes_a_checkpoint_of_its_algorithm(algo: str, tmp_path: Path) -> None:
    """Settings, weights, moments of every optimizer, and what is learned beside the policy; no replay buffer."""
    model, path, spec = saved(algo, tmp_path)
    assert spec.run.algo == algo
    settings = getattr(spec, algo)
    assert settings.net_arch == (8,)
    if algo == "ars":
        assert (settings.policy, settings.n_delta, settings.delta_std) == ("MlpPolicy", 2, 0.2)
    else:
        assert settings.gamma == model.gamma
    if algo == "td3":
        assert settings.action_noise.std == 0.25
    boundary = foreign_boundary(model_for(spec, build_vec_env(spec, None).vec), read_foreign(path), spec, 1)
    assert boundary.timesteps == model.num_timesteps
    assert boundary.replay is None
    assert all(th.equal(boundary.parameters[name], it.detach()) for name, it in model.policy.named_parameters())
    assert ("log_ent_coef" in boundary.parameters) == (algo == "sac")
    learned = ("actor.", "q_net.", "mlp_extractor.")
    assert any(name.startswith(learned) for name in boundary.moments) == (algo != "ars")


def test_a_zip_of_another_algorithm_than_the_presets_is_refused(tmp_path: Path) -> None:
    """It says which preset would fit."""
    _, path, _ = saved("dqn", tmp_path)
    env = {"id": "CartPole-v1", "n_envs": 1, "vec": "inline"}
    spec = msgspec.convert({"preset": "mine", "env": env, "run": {"algo": "a2c", "total_timesteps": 100}}, Spec)
    with pytest.raises(CheckpointError, match=r"a model of DQN, and the preset trains A2C: .* algo = 'dqn'"):
        foreign_boundary(model_for(spec, build_vec_env(spec, None).vec), read_foreign(path), spec, 1)
