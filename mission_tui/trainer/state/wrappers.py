"""What SB3's wrappers keep beside the environments, as plain arrays: the statistics of `VecNormalize`, so that
observations mean the same after a resume, and the frames of a `VecFrameStack`, so that it goes on in the middle of an
episode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import (
    StackedObservations,
    VecEnv,
    VecFrameStack,
    VecNormalize,
    unwrap_vec_wrapper,
)

from mission_tui.errors import CheckpointError
from mission_tui.trainer.tree import Tree

_WHOLE = "array"
"""The key of observations that are no dictionary."""


def capture_normalizer(normalizer: VecNormalize) -> Tree:
    """Running moments of observations (by key for dictionaries) and of returns, and each lane's discounted return."""
    observations = getattr(normalizer, "obs_rms", None)
    if isinstance(observations, RunningMeanStd):
        observations = {_WHOLE: observations}
    return {
        "obs": {key: _moments(moments) for key, moments in (observations or {}).items()},
        "ret": _moments(normalizer.ret_rms),
        "returns": normalizer.returns.copy(),
    }


def restore_normalizer(normalizer: VecNormalize, state: Tree, *, lanes: bool) -> None:
    """Put the moments back and, with `lanes`, the discounted returns. Raises `CheckpointError` if they do not fit."""
    own = getattr(normalizer, "obs_rms", {})
    by_key = {_WHOLE: own} if isinstance(own, RunningMeanStd) else own
    if by_key.keys() != state["obs"].keys():
        raise CheckpointError("the checkpoint's observation statistics are not those that env.normalize asks for")
    for key, moments in by_key.items():
        if moments.mean.shape != state["obs"][key]["mean"].shape:
            raise CheckpointError("the checkpoint's observation statistics have another shape than the observations")
        _put(moments, state["obs"][key])
    _put(normalizer.ret_rms, state["ret"])
    if lanes:
        normalizer.returns = state["returns"].copy()


def freeze_normalizer(normalizer: VecNormalize, state: Tree) -> None:
    """Have `normalizer` show observations by the moments in `state`, learn no others, and leave rewards raw.

    Raises `CheckpointError` if they do not fit.
    """
    normalizer.training, normalizer.norm_reward = False, False
    restore_normalizer(normalizer, state, lanes=False)


def _moments(moments: RunningMeanStd) -> Tree:
    return {"mean": np.array(moments.mean), "var": np.array(moments.var), "count": float(moments.count)}


def _put(moments: RunningMeanStd, state: Tree) -> None:
    moments.mean, moments.var, moments.count = state["mean"].copy(), state["var"].copy(), state["count"]


def capture_frames(vec: VecEnv) -> Tree | None:
    """Copies of the stacked observations by key; None where nothing is stacked."""
    stacks = _stacks(vec)
    return None if stacks is None else {key: stack.stacked_obs.copy() for key, stack in stacks.items()}


def restore_frames(vec: VecEnv, frames: Tree | None) -> None:
    """Show `frames` again. Raises `CheckpointError` if they are not those of `vec`'s stack."""
    stacks = _stacks(vec) or {}
    kept: dict[str, NDArray[Any]] = frames or {}
    if {key: stack.stacked_obs.shape for key, stack in stacks.items()} != {key: it.shape for key, it in kept.items()}:
        raise CheckpointError("env.frame_stack differs from the checkpoint's: its policy would see other inputs")
    for key, stack in stacks.items():
        stack.stacked_obs = np.array(kept[key])


def _stacks(vec: VecEnv) -> dict[str, StackedObservations[Any]] | None:
    wrapper = unwrap_vec_wrapper(vec, VecFrameStack)
    if wrapper is None:
        return None
    stacked: StackedObservations[Any] = wrapper.stacked_obs
    parts: dict[str, StackedObservations[Any]] = getattr(stacked, "sub_stacked_observations", {_WHOLE: stacked})
    return parts
