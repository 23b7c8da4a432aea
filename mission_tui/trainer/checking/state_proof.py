"""Whether an environment that says it can save its state really can: saved, stepped on, restored elsewhere, compared.

Two methods of the right names prove nothing. A state that lacks the random generator, or a counter, or that shares
memory with the environment would make a resume compute other numbers than the run that never stopped, and call itself
exact. So the state takes the way of a checkpoint, through files, into a second instance, which must live the same
future. Ours and Gymnasium's classic control are held to that by tests and are not tried.

Needs gymnasium and NumPy only. The global random generators are left as they were.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from mission_tui.envs.masks import MASKS
from mission_tui.envs.state import StatefulEnv, can_save_state, restore_env_state, save_env_state, tested_class
from mission_tui.errors import CheckpointError, MissionError, raised_by
from mission_tui.fleet.specs.mission_gym import MISSION_GYM
from mission_tui.fleet.specs.spec import EnvSpec
from mission_tui.trainer.building.env_ids import env_kwargs, find_env, make_env, making
from mission_tui.trainer.state.tree import read_tree, write_tree

__all__ = ["prove", "unproven"]

BUDGET_S = 0.12
"""How long each of the two futures is lived at most, once it is long enough to mean anything."""

LANES = 3
_SEED, _OTHER_SEED = 20_077, 31_013
_WARM_STEPS, _FEWEST_STEPS, _MOST_STEPS, _EPISODES, _AFTERMATH = 7, 48, 20_000, 2, 12
_CLASSIC = frozenset({"CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"})
_CLOCKS = ("time", "clock", "fps", "duration", "elapsed_s", "seconds")


def unproven(env: EnvSpec, snapshot: Path | None, *, batched: bool) -> str:
    """Why environments of `env` cannot be restored exactly although they say so, as a sentence without its subject;
    empty where they can, or say nothing of the kind. Raises `PresetError` for what cannot be made.
    """
    if not env.wrappers and env.id.rpartition(":")[2] in _CLASSIC | {MISSION_GYM}:
        return ""

    def make() -> gymnasium.Env[Any, Any]:
        return make_env(env, snapshot, around=lambda made: made)

    def make_batch() -> Any:
        with making(env.id):
            return gymnasium.make_vec(
                find_env(env),
                min(env.n_envs, LANES),
                vectorization_mode="vector_entry_point",
                **env_kwargs(env, snapshot),
            )

    return prove(make_batch if batched else make, batched=batched)


def prove(make: Callable[[], Any], *, batched: bool = False) -> str:
    """As `unproven`, of what `make` makes: single environments, or batches that begin their episodes anew."""
    subject = _Batch if batched else _Single
    with _generators_kept():
        original: Any = subject(make())
        try:
            if not original.saves or original.tested:
                return ""
            return _tried(original, lambda: subject(make()))
        except MissionError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an environment is foreign code and may raise anything
            return f"it raised {raised_by(error)} while its get_state was tried"
        finally:
            original.close()


def _tried(original: Any, again: Callable[[], Any]) -> str:
    original.reset(_SEED)
    chooser = np.random.default_rng(_SEED)
    for _ in range(2):
        for _ in range(_WARM_STEPS):
            original.step(original.choose(chooser))
        began, kept = original.attributes(), original.save()
        future = _lived(original, chooser)
        copy = again()
        try:
            try:
                state = _through_files(kept)
            except CheckpointError as error:
                return f"what its get_state returns cannot be kept in a checkpoint: {error}"
            try:
                copy.restore(state)
            except Exception as error:  # noqa: BLE001 - foreign code
                return f"its set_state raised {raised_by(error)}"
            if sentence := _left_out(began, copy.attributes(), future):
                return sentence
            if sentence := _difference(copy, future):
                return sentence
        finally:
            copy.close()
    return ""


@dataclass(slots=True)
class _Future:
    """What was done and what came of it. `beginnings`: the numbers in an environment right after its resets."""

    acts: list[Any] = field(default_factory=list)
    seen: list[dict[str, Any]] = field(default_factory=list)
    beginnings: list[dict[str, Any]] = field(default_factory=list)


def _lived(subject: Any, chooser: np.random.Generator) -> _Future:
    """Some episodes if they are short, at least so many steps if not; then a beginning that nobody waited for."""
    future, until, episodes = _Future(), time.monotonic() + BUDGET_S, 0
    for step in range(_MOST_STEPS):
        long_enough = step >= _FEWEST_STEPS and (episodes >= _EPISODES or time.monotonic() > until)
        if long_enough:
            break
        act = subject.choose(chooser)
        seen, ended = subject.step(act)
        future.acts.append(act)
        future.seen.append(seen)
        if ended:
            episodes += 1
            future.beginnings.append(subject.attributes())
    future.acts.append(None)
    future.seen.append(subject.reset(None))
    future.beginnings.append(subject.attributes())
    for _ in range(_AFTERMATH):
        act = subject.choose(chooser)
        future.acts.append(act)
        future.seen.append(subject.step(act)[0])
    return future


def _difference(copy: Any, future: _Future) -> str:
    for step, (act, was) in enumerate(zip(future.acts, future.seen, strict=True), start=1):
        now = copy.reset(None) if act is None else copy.step(act)[0]
        for name, value in was.items():
            if not _same(value, now.get(name)):
                return f"its get_state does not restore its {name}: first difference at step {step}"
    return ""


def _left_out(was: dict[str, Any], now: dict[str, Any], future: _Future) -> str:
    """A number that every episode begins with anew, and that a restored environment does not have as it was.

    A limit of steps may lie further away than anything that is tried here.
    """
    for name, value in was.items():
        anew = [beginning.get(name) for beginning in future.beginnings]
        differs = name in now and not _same(value, now[name])
        if differs and all(_same(each, anew[0]) for each in anew) and not _same(value, anew[0]):
            return f"its get_state leaves out '{name}', which changes within an episode"
    return ""


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        alike = isinstance(other, list | tuple) and len(one) == len(other)
        return alike and all(_same(a, b) for a, b in zip(one, other, strict=True))
    first, second = np.asarray(one), np.asarray(other)
    if first.shape != second.shape or first.dtype.kind != second.dtype.kind:
        return False
    return bool(np.array_equal(first, second, equal_nan=first.dtype.kind in "fc"))


def _comparable(info: Any) -> dict[str, Any]:
    """What of an info says something about the task: numbers, words and arrays, but no clocks."""
    if not isinstance(info, dict):
        return {}
    return {
        str(name): value
        for name, value in info.items()
        if isinstance(value, bool | int | float | str | np.number | np.bool_)
        or (isinstance(value, np.ndarray) and value.dtype != object)
        if not any(word in str(name).lower() for word in _CLOCKS)
    }


def _through_files(state: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        write_tree({"env": state}, Path(folder) / "state")
        return read_tree(Path(folder) / "state")["env"]


class _Single:
    """One environment, whose episodes begin anew as a vectorised one has them begin."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._actions = deepcopy(env.action_space)

    @property
    def saves(self) -> bool:
        return can_save_state(self._env)

    @property
    def tested(self) -> bool:
        return tested_class(self._env.unwrapped) or not isinstance(self._env.unwrapped, StatefulEnv)

    def reset(self, seed: int | None) -> dict[str, Any]:
        observation, info = self._env.reset(seed=seed)
        return {"first observations": deepcopy(observation), "infos of a reset": deepcopy(_comparable(info))}

    def choose(self, chooser: np.random.Generator) -> Any:
        mask = self._env.get_wrapper_attr(MASKS)() if self._env.has_wrapper_attr(MASKS) else None
        return _choice(self._actions, chooser, mask)

    def step(self, action: Any) -> tuple[dict[str, Any], bool]:
        observation, reward, terminated, truncated, info = self._env.step(deepcopy(action))
        seen = {
            "observations": deepcopy(observation),
            "rewards": float(reward),
            "terminations": bool(terminated),
            "truncations": bool(truncated),
            "infos": deepcopy(_comparable(info)),
        }
        if terminated or truncated:
            seen |= self.reset(None)
        return seen, bool(terminated or truncated)

    def save(self) -> Any:
        return save_env_state(self._env)

    def restore(self, state: Any) -> None:
        restore_env_state(self._env, state)

    def attributes(self) -> dict[str, Any]:
        """The plain numbers in the environment itself."""
        kept = vars(self._env.unwrapped) if hasattr(self._env.unwrapped, "__dict__") else {}
        return {name: value for name, value in kept.items() if isinstance(value, bool | int | float | np.number)}

    def close(self) -> None:
        with suppress(Exception):
            self._env.close()


class _Batch:
    """A batched environment, which begins the episodes of its lanes anew by itself."""

    def __init__(self, envs: Any) -> None:
        self._envs = envs
        self._actions = deepcopy(envs.single_action_space)

    @property
    def saves(self) -> bool:
        return isinstance(self._envs, StatefulEnv)

    @property
    def tested(self) -> bool:
        return tested_class(self._envs.unwrapped)

    def reset(self, seed: int | None) -> dict[str, Any]:
        observations, _ = self._envs.reset(seed=seed)
        return {"first observations": deepcopy(observations)}

    def choose(self, chooser: np.random.Generator) -> Any:
        masks = getattr(self._envs, MASKS)() if hasattr(self._envs, MASKS) else [None] * self._envs.num_envs
        return np.stack([_choice(self._actions, chooser, mask) for mask in masks])

    def step(self, actions: Any) -> tuple[dict[str, Any], bool]:
        observations, rewards, terminated, truncated, _ = self._envs.step(actions.copy())
        seen = {
            "observations": deepcopy(observations),
            "rewards": np.array(rewards),
            "terminations": np.array(terminated),
            "truncations": np.array(truncated),
        }
        return seen, bool(np.any(terminated | truncated))

    def save(self) -> Any:
        return self._envs.get_state()

    def restore(self, state: Any) -> None:
        self._envs.set_state(state)

    def attributes(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        with suppress(Exception):
            self._envs.close()


def _choice(actions: spaces.Space[Any], chooser: np.random.Generator, mask: Any) -> Any:
    """An action by chance, of those that the mask allows; the environment's own space draws nothing for it."""
    match actions:
        case spaces.Discrete() if mask is not None:
            return actions.start + int(chooser.choice(np.flatnonzero(mask)))
        case spaces.MultiDiscrete() if mask is not None:
            parts = np.split(np.asarray(mask), np.cumsum(actions.nvec.ravel())[:-1])
            chosen = [int(chooser.choice(np.flatnonzero(part))) for part in parts]
            return np.array(chosen, dtype=actions.dtype).reshape(actions.nvec.shape)
        case _:
            actions.seed(int(chooser.integers(2**31)))
            return actions.sample()


@contextmanager
def _generators_kept() -> Iterator[None]:
    """Python's, NumPy's and, where it is loaded, torch's global generators stand afterwards where they stood.

    Meanwhile they go their own way: what an environment draws from them is not its state, and must not look like it.
    """
    torch = sys.modules.get("torch")
    kept, legacy = random.getstate(), np.random.get_state()
    positions = None if torch is None else torch.get_rng_state()
    try:
        random.seed(_OTHER_SEED)
        np.random.seed(_OTHER_SEED)
        yield
    finally:
        random.setstate(kept)
        np.random.set_state(legacy)
        if torch is not None:
            torch.set_rng_state(positions)
