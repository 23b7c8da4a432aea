"""sb3-contrib's algorithms for tests: seeded models of ours and of theirs, and tables of specs that train them."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from typing import Any

import gymnasium
import pytest
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

import tests.trainer.masked_envs
import tests.trainer.probe_envs  # noqa: F401 - registers the probes
from mission_tui.fleet.specs.spec import Algo
from mission_tui.trainer.vec_env import InlineVecEnv

__all__ = ["LANES", "MASKABLE", "RECURRENT", "built", "learned", "needs_contrib", "ours", "theirs"]

LANES = 4
needs_contrib = pytest.mark.skipif(
    importlib.util.find_spec("sb3_contrib") is None, reason="needs the extra: pip install '.[contrib]'"
)
MASKABLE: dict[str, dict[str, Any]] = {
    "env": {"id": "MissionGym-v0", "config": "demo"},
    "ppo": {"algo": "maskable_ppo", "n_steps": 32, "batch_size": 32, "n_epochs": 2, "net_arch": [8]},
}
RECURRENT: dict[str, dict[str, Any]] = {
    "env": {"id": "CartPole-v1"},
    "ppo": {"algo": "recurrent_ppo", "policy": "MlpLstmPolicy", "policy_kwargs": {"lstm_hidden_size": 8}},
}


def ours(algo: Algo) -> Any:
    """This project's class of `algo`."""
    cls = {"maskable_ppo": "MaskablePPO", "recurrent_ppo": "RecurrentPPO"}[algo]
    return getattr(importlib.import_module("mission_tui.trainer.ppo.contrib"), cls)


def theirs(algo: Algo) -> Any:
    """sb3-contrib's class of `algo`."""
    return getattr(importlib.import_module("sb3_contrib"), ours(algo).__name__)


def built(cls: Any, case: dict[str, Any], vec_class: type[DummyVecEnv] = InlineVecEnv) -> Any:
    """A seeded model of `cls` on the environment of `case`."""
    arguments = {"n_steps": 32, "batch_size": 32, "n_epochs": 3, "seed": 3, "device": "cpu"} | case
    env_id, normalize = arguments.pop("env"), arguments.pop("normalize", False)
    vec: VecEnv = vec_class([lambda: Monitor(gymnasium.make(str(env_id)))] * LANES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = cls(arguments.pop("policy"), VecNormalize(vec) if normalize else vec, **arguments)
    model.set_logger(Logger(None, []))
    return model


def learned(cls: Any, case: dict[str, Any], vec_class: type[DummyVecEnv], updates: int = 3) -> Any:
    """A model after `updates` updates; both sides draw from the same global generators, so one is done first."""
    model = built(cls, case, vec_class)
    return model.learn(updates * model.n_steps * LANES)
