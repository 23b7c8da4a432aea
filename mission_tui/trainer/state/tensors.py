"""Parameters and optimizer moments as named tensors: copied out, put back, and kept in safetensors."""

from __future__ import annotations

from pathlib import Path

import torch as th
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from mission_tui.errors import CheckpointError

Tensors = dict[str, th.Tensor]


def copy_parameters(policy: th.nn.Module) -> Tensors:
    """Clones of all parameters and buffers; a tensor that several modules share appears once."""
    return {name: tensor.detach().clone() for name, tensor in named_tensors(policy).items()}


def put_parameters(policy: th.nn.Module, tensors: Tensors) -> None:
    """Copy `tensors` into `policy`. Raises `CheckpointError` if names or shapes are not those of the policy."""
    own = named_tensors(policy)
    if odd := own.keys() ^ tensors.keys():
        where = "the checkpoint" if min(odd) in own else "this run's policy"
        raise CheckpointError(f"the checkpoint is of another policy: parameter {min(odd)} is missing in {where}")
    with th.no_grad():
        for name, tensor in own.items():
            if tensor.shape != tensors[name].shape:
                there, here = list(tensors[name].shape), list(tensor.shape)
                raise CheckpointError(f"the checkpoint is of another policy: {name} is {there} there and {here} here")
            tensor.copy_(tensors[name])


def copy_moments(policy: th.nn.Module, optimizer: th.optim.Optimizer) -> Tensors:
    """Clones of what the optimizer keeps per parameter, named ``<parameter>/<moment>``; empty before the first step."""
    return {
        f"{name}/{key}": th.as_tensor(value).detach().clone()
        for name, parameter in policy.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if value is not None
    }


def put_moments(policy: th.nn.Module, optimizer: th.optim.Optimizer, moments: Tensors) -> None:
    """Give `optimizer` the `moments`; its own settings (betas, learning rate, ...) stay as they are."""
    index_of = {name: index for index, (name, _) in enumerate(policy.named_parameters())}
    state: dict[int, Tensors] = {}
    for full_name, tensor in moments.items():
        name, _, key = full_name.rpartition("/")
        if name not in index_of:
            raise CheckpointError(f"the checkpoint is of another policy: its optimizer knows parameter {name}")
        state.setdefault(index_of[name], {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def write_tensors(tensors: Tensors, path: Path) -> None:
    """Write `tensors` as safetensors."""
    # Not by `save_file`: its own writing reports a full disk as an error of its own kind, which no caller expects.
    path.write_bytes(save({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}))


def read_tensors(path: Path) -> Tensors:
    """Tensors on the CPU. Raises `CheckpointError` for a file that is not safetensors."""
    try:
        return load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path} does not hold tensors: {error}") from error


def named_tensors(policy: th.nn.Module) -> Tensors:
    """All parameters and buffers themselves; one that several modules share appears once."""
    return dict(policy.named_parameters()) | dict(policy.named_buffers())
