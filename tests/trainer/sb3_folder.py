"""What a short training with stock SB3 leaves in a folder: logs, monitors, models and statistics, made once."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import stable_baselines3
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecNormalize

__all__ = ["write_sb3_folder"]


@cache
def _contents() -> dict[str, bytes]:
    """Pendulum on two normalised environments: four updates of 128 steps, a model after each two."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        vec = VecNormalize(make_vec_env("Pendulum-v1", 2, seed=3, monitor_dir=name))
        model = stable_baselines3.PPO(
            "MlpPolicy",
            vec,
            n_steps=64,
            batch_size=32,
            n_epochs=2,
            policy_kwargs={"net_arch": [8]},
            seed=3,
            device="cpu",
        )
        model.set_logger(configure(name, ["csv"]))
        model.learn(512, callback=CheckpointCallback(128, name, save_vecnormalize=True))
        model.logger.close()
        model.save(folder / "model.zip")
        vec.save(str(folder / "vecnormalize.pkl"))
        vec.close()
        np.savez(folder / "evaluations.npz", timesteps=[256, 512], results=[[-900.0, -1100.0], [-800.0, -800.0]])
        return {path.name: path.read_bytes() for path in folder.iterdir()}


def write_sb3_folder(path: Path) -> Path:
    """The folder at `path`."""
    path.mkdir()
    for name, raw in _contents().items():
        (path / name).write_bytes(raw)
    return path
