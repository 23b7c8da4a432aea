"""What a model needs beside its environments to go on: parameters and optimizer moments as named tensors, kept in
safetensors, and what SB3's wrappers hold, as plain arrays.

With the statistics of `VecNormalize` observations mean the same after a resume; with the frames of a `VecFrameStack` an
episode goes on in its middle.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import (
    StackedObservations,
    VecEnv,
    VecFrameStack,
    VecNormalize,
    unwrap_vec_wrapper,
)

from mission_tui.errors import CheckpointError
from mission_tui.trainer.learner import Learner
from mission_tui.trainer.tree import Tree

Tensors = dict[str, th.Tensor]
_WHOLE = "array"
"""The key of observations that are no dictionary."""


def copy_parameters(policy: th.nn.Module) -> Tensors:
    """Clones of all parameters and buffers; a tensor that several modules share appears once."""
    return {name: tensor.detach().clone() for name, tensor in named_tensors(policy).items()}


def copy_learned(model: Learner) -> Tensors:
    """The same of a model's policy, with what it learns besides."""
    return copy_parameters(model.policy) | {
        name: tensor.detach().clone() for name, tensor in model.learned_besides().items()
    }


def put_learned(model: Learner, tensors: Tensors) -> None:
    """Copy what `copy_learned` made into `model`. Raises `CheckpointError` as `put_parameters` does."""
    _put_tensors(named_tensors(model.policy) | model.learned_besides(), tensors)


def put_parameters(policy: th.nn.Module, tensors: Tensors) -> None:
    """Copy `tensors` into `policy`. Raises `CheckpointError` if names or shapes are not those of the policy."""
    _put_tensors(named_tensors(policy), tensors)


def _put_tensors(own: Tensors, tensors: Tensors) -> None:
    if odd := own.keys() ^ tensors.keys():
        where = "the checkpoint" if min(odd) in own else "this run's policy"
        raise CheckpointError(f"the checkpoint is of another policy: parameter {min(odd)} is missing in {where}")
    with th.no_grad():
        for name, tensor in own.items():
            if tensor.shape != tensors[name].shape:
                there, here = list(tensors[name].shape), list(tensor.shape)
                raise CheckpointError(f"the checkpoint is of another policy: {name} is {there} there and {here} here")
            tensor.copy_(tensors[name])


def copy_moments(model: Learner) -> Tensors:
    """Clones of what every optimizer of `model` keeps per parameter, named ``<parameter>/<moment>``; empty before the
    first step.
    """
    return {
        f"{name}/{key}": th.as_tensor(value).detach().clone()
        for optimizer in model.optimizers()
        for name, parameter in _trained(model).items()
        for key, value in optimizer.state.get(parameter, {}).items()
        if value is not None
    }


def put_all_moments(model: Learner, moments: Tensors) -> None:
    """Give every optimizer of `model` its `moments`. Raises `CheckpointError` for those of another policy."""
    put_moments(_trained(model), moments, *model.optimizers())


def put_moments(parameters: Tensors, moments: Tensors, *optimizers: th.optim.Optimizer) -> None:
    """Give `optimizers` their `moments` of the named `parameters`; their own settings (betas, learning rate, ...) stay
    as they are. Raises `CheckpointError` for moments of another policy.
    """
    by_name: dict[str, Tensors] = {}
    for full_name, tensor in moments.items():
        name, _, key = full_name.rpartition("/")
        if name not in parameters:
            raise CheckpointError(f"the checkpoint is of another policy: its optimizer knows parameter {name}")
        by_name.setdefault(name, {})[key] = tensor
    name_of = {id(parameter): name for name, parameter in parameters.items()}
    for optimizer in optimizers:
        owned = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        known = {index: by_name.get(name_of.get(id(parameter), "")) for index, parameter in enumerate(owned)}
        state = {index: kept for index, kept in known.items() if kept is not None}
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _trained(model: Learner) -> Tensors:
    return dict(model.policy.named_parameters()) | model.learned_besides()


def write_tensors(tensors: Tensors, path: Path) -> None:
    """Write `tensors` as safetensors. Raises `MemoryError` where it has no memory for them."""
    # Not by `save_file`: its own writing reports a full disk as an error of its own kind, which no caller expects.
    try:
        content = save({name: tensor.contiguous().cpu() for name, tensor in tensors.items()})
    except BaseException as error:
        # Without memory Rust panics, which is no `Exception`: the run would end without its last record.
        if type(error).__name__ == "PanicException":
            raise MemoryError(f"no memory to write tensors: {error}") from error
        raise
    path.write_bytes(content)


def read_tensors(path: Path) -> Tensors:
    """Tensors on the CPU. Raises `CheckpointError` for a file that is not safetensors."""
    try:
        return load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path} does not hold tensors: {error}") from error


def named_tensors(policy: th.nn.Module) -> Tensors:
    """All parameters and buffers themselves; one that several modules share appears once."""
    return dict(policy.named_parameters()) | dict(policy.named_buffers())


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
        raise CheckpointError("the statistics of observations are not those that env.normalize asks for")
    for key, moments in by_key.items():
        if moments.mean.shape != state["obs"][key]["mean"].shape:
            there, here = (list(it.shape) for it in (state["obs"][key]["mean"], moments.mean))
            raise CheckpointError(
                f"the statistics are of observations of shape {there}, and env.id with its env.wrappers has {here}: "
                "they belong to another task"
            )
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
