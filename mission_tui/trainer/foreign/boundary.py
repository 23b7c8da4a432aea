"""A model that was read from a foreign zip, as a boundary of ours: its weights, moments and counters, saved; and what
its `vecnormalize.pkl` describes, which is not unpickled either.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from mission_tui.errors import CheckpointError
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.runs.checkpoint import save_checkpoint
from mission_tui.records.runs.manifest import CheckpointFacts
from mission_tui.records.sb3_run.normalizer_file import Array, Moments, read_statistics
from mission_tui.trainer.building.arguments import ppo_arguments
from mission_tui.trainer.building.effective import versions
from mission_tui.trainer.building.model import build_scratch
from mission_tui.trainer.foreign.zip_file import ForeignModel
from mission_tui.trainer.ppo import PPO
from mission_tui.trainer.state.boundary import Boundary, Progress, capture
from mission_tui.trainer.state.checkpoint import checkpoint_name, fill_checkpoint
from mission_tui.trainer.state.model_state import copy_moments, copy_parameters, restore_normalizer
from mission_tui.trainer.state.resume import facts_of
from mission_tui.trainer.tree import Tree


def model_for(spec: Spec, vec: VecEnv) -> PPO:
    """The model that a foreign one is put into, standing at the first observation of `vec`."""
    th.manual_seed(spec.run.seed or 0)
    model = build_scratch(ppo_arguments(spec), vec, "cpu", spec.ppo.algo)
    assert model.env is not None
    model._last_obs = model.env.reset()  # type: ignore[assignment]
    model._last_episode_starts = np.ones(1, dtype=bool)
    return model


def foreign_boundary(model: PPO, foreign: ForeignModel, spec: Spec, update: int) -> Boundary:
    """The boundary after `update` updates that the foreign model stands at, with what `model`'s normaliser knows.

    Its environments are not in the file, so none are kept. Raises `CheckpointError` for another policy than `model`'s.
    """
    _put(model, foreign)
    model.num_timesteps, model._n_updates = foreign.timesteps, foreign.gradient_epochs
    taken = capture(
        model, Progress(update=update), facts_of(spec, spec.run.seed or 0, None, None, 1, versions(model.algo))
    )
    return replace(taken, state={**taken.state, "envs": None})


def _put(model: PPO, foreign: ForeignModel) -> None:
    """Weights and moments into `model`, every name and shape compared before anything is copied."""
    own = model.policy.state_dict(keep_vars=True)
    if odd := own.keys() ^ foreign.parameters.keys():
        where = "the file" if min(odd) in own else "the preset's policy"
        raise CheckpointError(f"the file holds another policy than the preset asks for: {where} has no {min(odd)[:80]}")
    for name, tensor in own.items():
        _check_shape(name, foreign.parameters[name], tensor)
    parameters = list(model.policy.parameters())
    if foreign.moments.keys() - range(len(parameters)):
        raise CheckpointError("the file's optimizer knows more parameters than the preset's policy has")
    for index, kept in foreign.moments.items():
        for name, moment in kept.items():
            _check_shape(f"{index}/{name}", moment, th.zeros(()) if name == "step" else parameters[index])
    with th.no_grad():
        for name, tensor in own.items():
            tensor.copy_(foreign.parameters[name])
    groups = model.policy.optimizer.state_dict()["param_groups"]
    state = {index: {name: moment.clone() for name, moment in kept.items()} for index, kept in foreign.moments.items()}
    model.policy.optimizer.load_state_dict({"state": state, "param_groups": groups})
    for kind in (copy_parameters(model.policy), copy_moments(model.policy, model.policy.optimizer)):
        for name, tensor in kind.items():
            if not bool(th.isfinite(tensor).all()):
                raise CheckpointError(f"the file holds nan or infinite numbers in {name}; it was not imported")


def _check_shape(name: str, there: th.Tensor, here: th.Tensor) -> None:
    if there.shape != here.shape:
        shapes = f"{list(there.shape)} in the file and {list(here.shape)} in the preset's policy"
        raise CheckpointError(f"the file holds another policy than the preset asks for: {name[:80]} is {shapes}")


def save_foreign(checkpoints: Path, run: str, boundary: Boundary, spec: bytes) -> str:
    """Save `boundary` of run `run`, whose spec is `spec` as it was asked for; the checkpoint's name."""
    facts = CheckpointFacts(
        run=run,
        attempt=1,
        update=boundary.update,
        timesteps=boundary.timesteps,
        t=time.time(),
        reason="imported",
        spec_sha256=hashlib.sha256(spec).hexdigest(),
        extra={"env_state": False, "lineage": []},
    )
    name = checkpoint_name(boundary.timesteps)
    return save_checkpoint(checkpoints, name, lambda folder: fill_checkpoint(folder, boundary), facts).name


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
