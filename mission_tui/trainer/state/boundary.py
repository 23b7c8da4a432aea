"""The moment between two updates: everything the next one depends on, copied out of a training or put back into it.

One is taken at every boundary, before the rollout. So a stop in the middle of a rollout or of a long update need not
wait and need not be inexact: what was begun is dropped, and the boundary that was taken is what gets saved.

SB3 draws actions and noise from torch, minibatch order from NumPy's global generator; environments that use Python's or
NumPy's global generators are covered too.

Parameters and optimizer moments are named tensors, kept in safetensors, and what SB3's wrappers hold plain arrays. With
the statistics of `VecNormalize` observations mean the same after a resume; with the frames of a `VecFrameStack` an
episode goes on in its middle.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
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

from mission_tui.envs.state import generator_from_words, generator_words, is_portable
from mission_tui.errors import CheckpointError
from mission_tui.fleet.events.metrics import plain
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Terms
from mission_tui.fleet.windows import Window
from mission_tui.trainer.learner import Learner, Replayed
from mission_tui.trainer.ppo import PPO
from mission_tui.trainer.ppo.optimizer import LrWarmup
from mission_tui.trainer.spaces import described
from mission_tui.trainer.tree import Tree
from mission_tui.trainer.vec_env import savable
from mission_tui.trainer.vec_env.in_process import copied

_STEP = ("train/approx_kl", "train/clip_fraction", "train/clip_range")
_STEPS = 20
"""Updates whose steps are kept: as many as a resume is watched for."""

Tensors = dict[str, th.Tensor]
_WHOLE = "array"
"""The key of observations that are no dictionary."""


@dataclass(slots=True)
class Progress:
    """How far a run is, over all its attempts: updates done, seconds trained; of the last update its entropy loss, and
    of the last ones how far each moved the policy (KL, share clipped, clip range), for a resume to compare with.
    """

    update: int = 0
    trained_s: float = 0.0
    entropy: float | None = None
    steps: Window[list[float | None]] = field(default_factory=lambda: Window(_STEPS))

    @classmethod
    def at(cls, boundary: Boundary) -> Progress:
        """That of a run that stands at `boundary`; those of earlier versions recorded less."""
        steps = Window(_STEPS, boundary.state.get("steps", ()))
        return cls(boundary.update, boundary.trained_s, boundary.state.get("entropy"), steps)

    def updated(self, metrics: Mapping[str, Any]) -> None:
        """One more update is done, with these metrics."""
        self.update += 1
        self.entropy = metrics.get("train/entropy_loss")
        if not metrics.keys().isdisjoint(_STEP):
            self.steps.append([plain(metrics.get(tag)) for tag in _STEP])


@dataclass(frozen=True, slots=True)
class Boundary:
    """A copy that shares no memory with the model. `state` is a tree of arrays and JSON values.

    Only `replay` is the model's own, which goes back to this boundary when it is written; in a boundary that was read
    it is the file at `replay_file`, if one was kept.
    """

    update: int
    timesteps: int
    trained_s: float
    parameters: Tensors
    moments: Tensors
    state: Tree
    replay: Replayed | None = None
    replay_file: Path | None = None

    @property
    def has_env_state(self) -> bool:
        """Whether the environments could be saved; if not, a resumed run is continued and never exact."""
        return self.state["envs"] is not None


def capture(model: Learner, progress: Progress, facts: Mapping[str, Any]) -> Boundary:
    """Copy the boundary `model` stands at; `facts` are JSON values that a resume will want to compare."""
    assert model.env is not None
    base = savable(model.env)
    normalizer = model.get_vec_normalize_env()
    state: Tree = {
        "facts": dict(facts),
        "n_updates": model._n_updates,
        "easing": model.lr_warmup.state if isinstance(model, PPO) else None,
        "entropy": progress.entropy,
        "steps": list(progress.steps),
        "episodes": _window(model),
        "random": capture_random(model.device, model.action_space),
        "normalizer": None if normalizer is None else capture_normalizer(normalizer),
        "envs": None if base is None else base.get_state(),
        "frames": None if base is None else capture_frames(model.env),
        "last_obs": copied(model._last_obs),
        "memory": model.memory(),
        "last_episode_starts": np.array(model._last_episode_starts),
        "callbacks": None if model.callbacks is None else model.callbacks.state,
        "spaces": _spaces(model.env.unwrapped),
    }
    if (counters := model.counters()) is not None:
        state["counters"] = counters
    if model.replay is not None:
        model.replay.mark()
    return Boundary(
        update=progress.update,
        timesteps=model.num_timesteps,
        trained_s=progress.trained_s,
        parameters=copy_learned(model),
        moments=copy_moments(model),
        state=state,
        replay=model.replay if model.keeps_replay else None,
    )


def restore_learner(model: Learner, boundary: Boundary, terms: Terms = AS_IT_WAS) -> None:
    """Put back what is learned and counted: parameters, moments, statistics, counters, the window of last episodes.

    What `terms` leave behind begins anew, and a warm-up of theirs replaces the one that the boundary was taken in.
    Raises `CheckpointError` if the boundary is of another policy or of other observations.
    """
    put_learned(model, boundary.parameters)
    if not terms.fresh_optimizer:
        put_all_moments(model, boundary.moments)
    state = boundary.state
    if not terms.fresh_normalizer:
        _restore_statistics(model, state)
    if isinstance(model, PPO):
        model.lr_warmup = LrWarmup.from_state(state.get("easing")) if terms.over(0, 0) else LrWarmup(terms)
    if (counters := state.get("counters")) is not None:
        model.count_from(counters)
    model.num_timesteps = boundary.timesteps
    model._n_updates = state["n_updates"]
    window = state["episodes"]
    model.ep_info_buffer = deque(
        ({"r": r, "l": length, "t": t} for r, length, t in window["info"]), maxlen=model._stats_window_size
    )
    model.ep_success_buffer = deque(window["success"], maxlen=model._stats_window_size)


def _restore_statistics(model: Learner, state: Tree) -> None:
    normalizer = model.get_vec_normalize_env()
    if normalizer is not None and state["normalizer"] is None and not normalizer.norm_obs:
        return  # of rewards alone: its statistics begin here
    if (normalizer is None) != (state["normalizer"] is None):
        raise CheckpointError("env.normalize differs from the checkpoint's: its policy would see other inputs")
    if normalizer is not None:
        restore_normalizer(normalizer, state["normalizer"], lanes=False)


def restore_envs(model: Learner, boundary: Boundary) -> bool:
    """Put the environments back into the middle of their episodes; False if they or the boundary cannot do that."""
    assert model.env is not None
    base, state, normalizer = savable(model.env), boundary.state, model.get_vec_normalize_env()
    if base is None or state["envs"] is None:
        return False
    base.set_state(state["envs"])
    # Building the model asked for a seed at the next reset, which ARS has before each episode.
    model.env.unwrapped._reset_seeds()
    restore_frames(model.env, state.get("frames"))
    if normalizer is not None and state["normalizer"] is not None:
        restore_normalizer(normalizer, state["normalizer"], lanes=True)
    if (memory := state.get("memory")) is not None:
        model.remember(memory)
    model._last_obs = state["last_obs"]
    model._last_episode_starts = state["last_episode_starts"]
    return True


def restore_random_state(model: Learner, boundary: Boundary) -> None:
    """Put all random generators back; the last thing before training goes on, because building things draws numbers."""
    restore_random(boundary.state["random"], model.device, model.action_space)


def _spaces(base: Any) -> Tree | None:
    """What the environment itself shows and takes, below all wrappers: an export needs no more of it."""
    observations, actions = described(base.observation_space), described(base.action_space)
    return None if observations is None or actions is None else {"observations": observations, "actions": actions}


def _window(model: Learner) -> Tree:
    return {
        "info": [[float(e["r"]), int(e["l"]), float(e["t"])] for e in model.ep_info_buffer or ()],
        "success": [float(success) for success in model.ep_success_buffer or ()],
    }


def capture_random(device: th.device, action_space: gymnasium.Space[Any]) -> Tree:
    """Positions of Python's, NumPy's and torch's global generators and of the action space's own."""
    version, words, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    sampler = action_space._np_random
    return {
        "python": {"version": version, "words": np.array(words, dtype=np.uint32), "gauss": gauss},
        "numpy": {"keys": np.array(keys), "position": position, "has_gauss": has_gauss, "cached": cached},
        "torch": th.get_rng_state().numpy(),
        "cuda": th.cuda.get_rng_state(device).numpy() if device.type == "cuda" else None,
        "action_space": generator_words(sampler) if sampler is not None and is_portable(sampler) else None,
    }


def restore_random(state: Tree, device: th.device, action_space: gymnasium.Space[Any]) -> None:
    """Put every generator where `capture_random` found it."""
    python, legacy = state["python"], state["numpy"]
    random.setstate((python["version"], tuple(int(word) for word in python["words"]), python["gauss"]))
    np.random.set_state(("MT19937", legacy["keys"], legacy["position"], legacy["has_gauss"], legacy["cached"]))
    th.set_rng_state(th.from_numpy(state["torch"]))
    if device.type == "cuda" and state["cuda"] is not None:
        th.cuda.set_rng_state(th.from_numpy(state["cuda"]), device)
    if state["action_space"] is not None:
        action_space._np_random = generator_from_words(state["action_space"])


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
