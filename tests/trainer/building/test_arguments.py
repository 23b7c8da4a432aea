"""From preset words to SB3's arguments, and back from the built model to `effective.toml`."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import torch as th
from msgspec import structs
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.utils import LinearSchedule

from mission_tui.errors import PresetError
from mission_tui.trainer.building.effective import effective_toml
from mission_tui.trainer.building.model import build_ppo, ppo_arguments
from mission_tui.trainer.vec_env import build_vec_env
from tests.trainer.harness import spec_with


def test_numbers_keep_their_names_and_values() -> None:
    """What the preset says is what PPO gets."""
    arguments = ppo_arguments(spec_with(ppo={"gamma": 0.98, "target_kl": 0.02, "ent_coef": 0.01, "clip_range_vf": 0.3}))
    assert {
        key: arguments[key] for key in ("gamma", "target_kl", "ent_coef", "clip_range_vf", "n_steps", "batch_size")
    } == {
        "gamma": 0.98,
        "target_kl": 0.02,
        "ent_coef": 0.01,
        "clip_range_vf": 0.3,
        "n_steps": 32,
        "batch_size": 32,
    }


def test_an_unwritten_batch_size_is_planned() -> None:
    """The batch plan's size and epochs are used, and divide the rollout."""
    arguments = ppo_arguments(spec_with(ppo={"batch_size": "auto", "n_epochs": None}))
    assert 64 % arguments["batch_size"] == 0
    assert arguments["n_epochs"] == 10


def test_schedules_are_sb3s_own() -> None:
    """A table becomes a linear schedule from start to end that stays at its end."""
    schedule = ppo_arguments(spec_with(ppo={"learning_rate": {"start": 1e-3, "end": 1e-4}}))["learning_rate"]
    assert isinstance(schedule, LinearSchedule)
    assert [schedule(progress) for progress in (1.0, 0.5, 0.0, -0.1)] == pytest.approx([1e-3, 5.5e-4, 1e-4, 1e-4])


def test_networks_and_classes_are_found_by_name() -> None:
    """Lists and tables of layers, activation and optimizer by bare, dotted or full name."""
    kwargs = {"activation_fn": "nn.ReLU", "optimizer_class": "RMSprop", "log_std_init": -1.0}
    arguments = ppo_arguments(spec_with(ppo={"net_arch": {"pi": [4], "vf": [5, 6]}, "policy_kwargs": kwargs}))
    assert arguments["policy_kwargs"] == {
        "net_arch": {"pi": [4], "vf": [5, 6]},
        "activation_fn": th.nn.ReLU,
        "optimizer_class": th.optim.RMSprop,
        "log_std_init": -1.0,
    }
    full = {"policy": "stable_baselines3.common.policies:ActorCriticPolicy"}
    assert ppo_arguments(spec_with(ppo=full))["policy"] is ActorCriticPolicy


@pytest.mark.parametrize(
    ("ppo", "sentence"),
    [
        ({"policy": "MlpPolice"}, "did you mean 'MlpPolicy'"),
        ({"policy_kwargs": {"activation_fn": "ReLLU"}}, "did you mean"),
        ({"policy_kwargs": {"bogus": 1}}, "unknown key ppo.policy_kwargs.bogus"),
        ({"policy_kwargs": {"squash_output": True}}, r"\[ppo\] does not fit"),
        ({"use_sde": True}, "State-Dependent Exploration"),
    ],
)
def test_what_ppo_refuses_is_said_as_a_preset_error(ppo: dict[str, Any], sentence: str) -> None:
    """Names are checked with the nearest one; the rest is SB3's own sentence."""
    spec = spec_with(ppo=ppo)
    with pytest.raises(PresetError, match=sentence):
        build_ppo(ppo_arguments(spec), build_vec_env(spec, None).vec, 0, "cpu")


@pytest.mark.slow
def test_effective_values_are_read_back_from_the_model() -> None:
    """The file holds what runs: resolved batch, learning rate now, network, spaces, versions and reasons."""
    spec = spec_with(ppo={"batch_size": None, "learning_rate": {"start": 1e-3, "end": 0.0}}, env={"normalize": True})
    envs = build_vec_env(spec, None)
    model = build_ppo(ppo_arguments(spec), envs.vec, 7, "cpu")
    tables = tomllib.loads(effective_toml(spec, envs, model, 0.5, {"run.device": "because"}))
    assert tables["ppo"]["learning_rate"] == pytest.approx(5e-4)
    assert tables["ppo"]["batch_size"] == model.batch_size
    assert "target_kl" not in tables["ppo"]
    assert (tables["env"]["vec"], tables["env"]["normalize"], tables["env"]["action_space"]) == (
        "inline",
        True,
        "Discrete(2)",
    )
    assert tables["run"]["seed"] == 7
    assert tables["model"]["parameters"] == sum(parameter.numel() for parameter in model.policy.parameters())
    assert tables["model"]["net_arch"] == [8]
    assert tables["host"]["torch"] == th.__version__
    assert tables["reasons"].keys() >= {"env.vec", "run.device", "ppo.batch_size", "ppo.n_epochs"}
    assert "scaling" not in tables


def test_what_auto_scaling_did_is_stored() -> None:
    """The table of before and after is in the file, with the learning rate that is only proposed."""
    spec = spec_with(ppo={"n_steps": 65_536, "batch_size": None, "n_epochs": None}, env={"n_envs": 2})
    spec = structs.replace(spec, run=structs.replace(spec.run, auto_scale=True))
    envs = build_vec_env(spec, None)
    model = build_ppo(ppo_arguments(spec), envs.vec, 7, "cpu")
    tables = tomllib.loads(effective_toml(spec, envs, model, 1.0, {}))
    assert tables["scaling"]["columns"] == ["reference", "without", "with"]
    assert tables["scaling"]["ppo.batch_size"] == [8192, 64, model.batch_size]
    assert tables["scaling"]["gradient steps"] == [16, 20_480, 32]
    assert tables["scaling"]["proposed_learning_rate"] == pytest.approx(1.5e-4)
    assert tables["ppo"]["learning_rate"] == pytest.approx(3e-4)
