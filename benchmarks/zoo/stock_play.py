"""A published agent played by Stable-Baselines3 alone: its policy, its environments, its `evaluate_policy`.

Where a return here is not the published one, this says whether the task has changed since, or we play it otherwise. Of
the folder's pickles only tensors and numbers are taken, as everywhere.
"""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from benchmarks.zoo.agents_table import Returns
from mission_tui.fleet.specs.spec import Spec, parse_part
from mission_tui.records.sb3_run.folder import find_folder
from mission_tui.records.sb3_run.normalizer_file import Array, read_statistics
from mission_tui.trainer.building.model import ppo_arguments

__all__ = ["played_by_stock"]

LANES, SEED = 8, 10_000
"""Those of `evaluate`: the same lanes begin the same episodes."""


def played_by_stock(path: Path, spec: Spec, episodes: int) -> Returns:
    """The returns of the agent in the zoo's folder `path`, on the environments of the `spec` it was imported with."""
    folder = find_folder(path)
    model_file = folder.zips[0]
    for module in spec.env.imports:
        importlib.import_module(module)
    vec: VecEnv = make_vec_env(spec.env.id, LANES, SEED, env_kwargs=spec.env.kwargs, wrapper_class=_wrapped(spec))
    beside = folder.statistics_of(model_file)
    if beside is not None:
        vec = _normalized(vec, beside)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = PPO(env=vec, device="cpu", **ppo_arguments(spec))
        tensors: Any = load_from_zip_file(model_file, device="cpu", load_data=False)[1]
        model.policy.load_state_dict(tensors["policy"])
        returns, _ = evaluate_policy(model, vec, episodes, return_episode_rewards=True)
    vec.close()
    return Returns(float(np.mean(returns)), float(np.std(returns)), episodes)


def _wrapped(spec: Spec) -> Any:
    parts = [parse_part(it) for it in spec.env.wrappers]

    def around(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
        for part in parts:
            module, _, name = part.cls.partition(":")
            env = getattr(importlib.import_module(module), name)(env, **part.kwargs)
        return env

    return around


def _normalized(vec: VecEnv, file: Path) -> VecEnv:
    said = read_statistics(file)
    normalizer = VecNormalize(vec, training=False, norm_reward=False, clip_obs=said.normalize["clip_obs"])
    moments: Any = normalizer.obs_rms
    moments.mean, moments.var = _array(said.obs["array"].mean), _array(said.obs["array"].var)
    return normalizer


def _array(array: Array) -> np.ndarray[Any, Any]:
    return np.frombuffer(array.raw, dtype=array.dtype).reshape(array.shape)
