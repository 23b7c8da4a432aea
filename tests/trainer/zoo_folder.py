"""A run folder as the RL zoo publishes it: `ppo/TASK-vN_1` with monitors, a zip, evaluations and an inner folder of
settings and statistics, left by a short training with stock SB3.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import stable_baselines3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

__all__ = ["MOUNTAIN_CAR", "write_zoo_folder"]

MOUNTAIN_CAR: dict[str, Any] = {
    "batch_size": 256,
    "clip_range": 0.1,
    "ent_coef": 0.00429,
    "gae_lambda": 0.9,
    "gamma": 0.9999,
    "learning_rate": 7.77e-05,
    "max_grad_norm": 5,
    "n_epochs": 10,
    "n_steps": 8,
    "policy_kwargs": {"log_std_init": -3.29, "ortho_init": False},
    "use_sde": True,
    "vf_coef": 0.19,
}
"""The zoo's for MountainCarContinuous-v0: rollouts of 8 in one environment, and minibatches of 256."""


def write_zoo_folder(
    logs: Path,
    env_id: str,
    settings: Mapping[str, Any],
    *,
    steps: int,
    n_envs: int = 1,
    normalize: bool = False,
    episodes: int = 10,
    called: str | None = None,
) -> tuple[Path, list[float]]:
    """The folder in `logs`, and the returns of `episodes` that SB3's own evaluation of its final policy gave.

    `called` is the task's name in the folder's own words where that is another one than `env_id`.
    """
    task = called or env_id
    folder = logs / f"{task}_1"
    inner = folder / task
    inner.mkdir(parents=True)
    vec: VecEnv = make_vec_env(env_id, n_envs, seed=3, monitor_dir=str(folder))
    if normalize:
        vec = VecNormalize(vec, gamma=settings.get("gamma", 0.99))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = stable_baselines3.PPO("MlpPolicy", vec, seed=3, device="cpu", **settings)
    model.set_logger(Logger(None, []))
    model.learn(steps)
    model.save(folder / f"{task}.zip")
    fresh: VecEnv = make_vec_env(env_id, n_envs, seed=99)
    if isinstance(vec, VecNormalize):
        vec.save(str(inner / "vecnormalize.pkl"))
        fresh = VecNormalize.load(str(inner / "vecnormalize.pkl"), fresh)
        fresh.training = fresh.norm_reward = False
    returns, _ = evaluate_policy(model, fresh, episodes, return_episode_rewards=True)
    assert isinstance(returns, list)
    fresh.close()
    vec.close()
    np.savez(folder / "evaluations.npz", timesteps=[steps], results=[returns])
    for path in folder.glob("*.monitor.csv"):
        path.write_text(path.read_text().replace(f'"{env_id}"', f'"{task}"'))
    words = {name: _written(value) for name, value in settings.items()}
    words |= {"n_envs": n_envs, "n_timesteps": float(steps), "normalize": normalize, "policy": "MlpPolicy"}
    (inner / "config.yml").write_text(_ordered(words))
    (inner / "args.yml").write_text(_ordered({"algo": "ppo", "env": task, "env_kwargs": "null", "seed": 3}))
    return folder, [float(it) for it in returns]


def _written(value: object) -> object:
    if isinstance(value, dict):
        return f"dict({', '.join(f'{name}={it}' for name, it in value.items())})"
    return value


def _ordered(words: Mapping[str, Any]) -> str:
    """As the zoo writes an `OrderedDict`."""
    pairs = [f"  - - {name}\n    - {str(it).lower() if isinstance(it, bool) else it}" for name, it in words.items()]
    pairs[0] = pairs[0].replace("  - - ", "- - - ", 1)
    return "!!python/object/apply:collections.OrderedDict\n" + "\n".join(pairs) + "\n"
