"""The moment between two updates: everything the next one depends on, copied out of a training or put back into it.

One is taken at every boundary, before the rollout. So a stop in the middle of a rollout or of a long update need not
wait and need not be inexact: what was begun is dropped, and the boundary that was taken is what gets saved.

SB3 draws actions and noise from torch, minibatch order from NumPy's global generator; environments that use Python's or
NumPy's global generators are covered too.
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

from mission_tui.envs.state import generator_from_words, generator_words, is_portable
from mission_tui.errors import CheckpointError
from mission_tui.fleet.events.metrics import plain
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Terms
from mission_tui.fleet.windows import Window
from mission_tui.trainer.learner import Learner, Replayed
from mission_tui.trainer.ppo import PPO
from mission_tui.trainer.ppo.optimizer import LrWarmup
from mission_tui.trainer.spaces import described
from mission_tui.trainer.state import model_state
from mission_tui.trainer.tree import Tree
from mission_tui.trainer.vec_env import savable
from mission_tui.trainer.vec_env.in_process import copied

_STEP = ("train/approx_kl", "train/clip_fraction", "train/clip_range")
_STEPS = 20
"""Updates whose steps are kept: as many as a resume is watched for."""


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
    parameters: model_state.Tensors
    moments: model_state.Tensors
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
        "normalizer": None if normalizer is None else model_state.capture_normalizer(normalizer),
        "envs": None if base is None else base.get_state(),
        "frames": None if base is None else model_state.capture_frames(model.env),
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
        parameters=model_state.copy_learned(model),
        moments=model_state.copy_moments(model),
        state=state,
        replay=model.replay if model.keeps_replay else None,
    )


def restore_learner(model: Learner, boundary: Boundary, terms: Terms = AS_IT_WAS) -> None:
    """Put back what is learned and counted: parameters, moments, statistics, counters, the window of last episodes.

    What `terms` leave behind begins anew, and a warm-up of theirs replaces the one that the boundary was taken in.
    Raises `CheckpointError` if the boundary is of another policy or of other observations.
    """
    model_state.put_learned(model, boundary.parameters)
    if not terms.fresh_optimizer:
        model_state.put_all_moments(model, boundary.moments)
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
        model_state.restore_normalizer(normalizer, state["normalizer"], lanes=False)


def restore_envs(model: Learner, boundary: Boundary) -> bool:
    """Put the environments back into the middle of their episodes; False if they or the boundary cannot do that."""
    assert model.env is not None
    base, state, normalizer = savable(model.env), boundary.state, model.get_vec_normalize_env()
    if base is None or state["envs"] is None:
        return False
    base.set_state(state["envs"])
    # Building the model asked for a seed at the next reset, which ARS has before each episode.
    model.env.unwrapped._reset_seeds()
    model_state.restore_frames(model.env, state.get("frames"))
    if normalizer is not None and state["normalizer"] is not None:
        model_state.restore_normalizer(normalizer, state["normalizer"], lanes=True)
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
