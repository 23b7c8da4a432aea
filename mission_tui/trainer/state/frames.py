"""The frames that a `VecFrameStack` still shows, as arrays, so that a resume goes on in the middle of an episode."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import StackedObservations, VecEnv, VecFrameStack, unwrap_vec_wrapper

from mission_tui.errors import CheckpointError
from mission_tui.trainer.tree import Tree

__all__ = ["capture_frames", "restore_frames"]

_WHOLE = "array"
"""The key of observations that are no dictionary."""


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
