"""The training of a spec by Stable-Baselines3 alone, for comparing: its PPO, its environments, its `learn`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import stable_baselines3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from mission_tui.fleet.specs.spec import Spec
from mission_tui.trainer.building.model import ppo_arguments


def sb3_vec(env_id: str, lanes: int, around: Callable[[Any], Any] = lambda env: env) -> DummyVecEnv:
    """`lanes` monitored environments in SB3's own vectorised one, each wrapped by `around`."""
    return DummyVecEnv([lambda: around(Monitor(gymnasium.make(env_id)))] * lanes)


def sb3_learned(
    spec: Spec, callback: list[BaseCallback] | None = None, vec: VecEnv | None = None
) -> stable_baselines3.PPO:
    """Stock PPO with the arguments of `spec` after as many steps as it asks for, on `vec` or its plain environment."""
    total = spec.run.total_timesteps
    assert total is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = stable_baselines3.PPO(
            env=vec if vec is not None else sb3_vec(spec.env.id, spec.env.n_envs),
            seed=spec.run.seed,
            device="cpu",
            **ppo_arguments(spec),
        )
        model.set_logger(Logger(None, []))
        return model.learn(total, callback=callback)
