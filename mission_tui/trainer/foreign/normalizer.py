"""The statistics that a foreign `vecnormalize.pkl` describes, put into a normaliser of ours; nothing is unpickled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecNormalize

from mission_tui.errors import CheckpointError
from mission_tui.records.sb3_run.normalizer_file import Array, Moments, read_statistics
from mission_tui.trainer.state.normalizer import restore_normalizer
from mission_tui.trainer.tree import Tree

__all__ = ["put_statistics"]


def put_statistics(normalizer: VecNormalize, path: Path) -> None:
    """Have `normalizer` know what the statistics in `path` say. Raises `CheckpointError` naming the file."""
    said = read_statistics(path)
    observations = {key: _moments(moments, path) for key, moments in said.obs.items()}
    try:
        restore_normalizer(normalizer, {"obs": observations, "ret": _moments(said.ret, path)}, lanes=False)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None


def _moments(moments: Moments, path: Path) -> Tree:
    mean, var = _array(moments.mean), _array(moments.var)
    if not (np.isfinite(mean).all() and np.isfinite(var).all() and 0.0 < moments.count < np.inf):
        raise CheckpointError(f"{path}: its statistics hold nan or infinite numbers; nothing was taken over")
    if (var < 0.0).any():
        raise CheckpointError(f"{path}: its statistics hold a negative variance; nothing was taken over")
    return {"mean": mean, "var": var, "count": float(moments.count)}


def _array(array: Array) -> NDArray[np.float64]:
    return np.frombuffer(array.raw, dtype=array.dtype).reshape(array.shape).astype(np.float64)
