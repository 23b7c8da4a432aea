"""The beginning of a branch: a fresh training that takes over the weights of a checkpoint that fit its network."""

from __future__ import annotations

from contextlib import suppress

import torch as th

from mission_tui.errors import CheckpointError, PresetError
from mission_tui.trainer.ppo import PPO
from mission_tui.trainer.state.boundary import Boundary
from mission_tui.trainer.state.normalizer import restore_normalizer
from mission_tui.trainer.state.tensors import named_tensors

__all__ = ["take_weights"]


def take_weights(model: PPO, boundary: Boundary) -> str:
    """Copy every parameter of the same name and shape, and the normalizer's statistics where they fit.

    Returns what was taken, in a sentence. Raises `PresetError` when nothing fits.
    """
    own = named_tensors(model.policy)
    fitting = [
        name
        for name, tensor in own.items()
        if name in boundary.parameters and boundary.parameters[name].shape == tensor.shape
    ]
    # A bias of one number fits everywhere and carries nothing over.
    if not any(own[name].ndim > 1 for name in fitting):
        raise PresetError("no weight of the checkpoint fits this network; launch it without them")
    with th.no_grad():
        for name in fitting:
            own[name].copy_(boundary.parameters[name])
    fresh = [name for name in own if name not in fitting]
    taken = f"{len(fitting)} of {len(own)} tensors are the checkpoint's"
    return f"{taken}{_statistics(model, boundary)}" + (f"; fresh: {', '.join(fresh)}" if fresh else "")


def _statistics(model: PPO, boundary: Boundary) -> str:
    normalizer = model.get_vec_normalize_env()
    if normalizer is None or boundary.state["normalizer"] is None:
        return ""
    with suppress(CheckpointError):
        restore_normalizer(normalizer, boundary.state["normalizer"], lanes=False)
        return ", and so are the normalizer's statistics"
    return ""
