"""A single environment and a batched one behind one interface, for the proof that their state can be saved: stepped
with random actions, saved, restored, and asked what they remember.
"""

from __future__ import annotations

import random
from collections import deque
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from gymnasium import spaces

from mission_tui.envs.masks import MASKS
from mission_tui.envs.state import StatefulEnv, can_save_state, restore_env_state, save_env_state, tested_class

_MOST_REMEMBERED, _MOST_BYTES, _DEEPEST = 2_000, 1 << 20, 3
_GYMNASIUMS = ("spec", "metadata", "render_mode", "observation_space", "action_space", "_np_random_seed")
_CLOCKS = ("time", "clock", "fps", "duration", "elapsed_s", "seconds", "wall", "latency", "took", "_ms")


class _Subject:
    """What single and batched environments are asked in the same way."""

    _env: Any

    def attributes(self) -> dict[str, Any]:
        """What the environment itself remembers, as plain values by name."""
        return _remembered(self._env.unwrapped)

    def move(self, name: str, by: int) -> bool:
        """Add `by` to a number that it remembers; false where that cannot be done."""
        base = self._env.unwrapped
        if name not in vars(base):
            return False
        setattr(base, name, getattr(base, name) + by)
        return True

    def close(self) -> None:
        with suppress(Exception):
            self._env.close()


class SingleSubject(_Subject):
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


class BatchedSubject(_Subject):
    """A batched environment, which begins the episodes of its lanes anew by itself."""

    def __init__(self, envs: Any) -> None:
        self._env = envs
        self._actions = deepcopy(envs.single_action_space)

    @property
    def saves(self) -> bool:
        return isinstance(self._env, StatefulEnv)

    @property
    def tested(self) -> bool:
        return tested_class(self._env.unwrapped)

    def reset(self, seed: int | None) -> dict[str, Any]:
        observations, _ = self._env.reset(seed=seed)
        return {"first observations": deepcopy(observations)}

    def choose(self, chooser: np.random.Generator) -> Any:
        masks = getattr(self._env, MASKS)() if hasattr(self._env, MASKS) else [None] * self._env.num_envs
        return np.stack([_choice(self._actions, chooser, mask) for mask in masks])

    def step(self, actions: Any) -> tuple[dict[str, Any], bool]:
        observations, rewards, terminated, truncated, _ = self._env.step(actions.copy())
        seen = {
            "observations": deepcopy(observations),
            "rewards": np.array(rewards),
            "terminations": np.array(terminated),
            "truncations": np.array(truncated),
        }
        return seen, bool(np.any(terminated | truncated))

    def save(self) -> Any:
        return self._env.get_state()

    def restore(self, state: Any) -> None:
        self._env.set_state(state)


@dataclass(frozen=True, slots=True)
class GeneratorPosition:
    """Where a random generator stands."""

    state: str


def _remembered(base: Any) -> dict[str, Any]:
    """What `base` remembers, by path: numbers, words, arrays, lists of such, generators; and in what it is made of."""
    found: dict[str, Any] = {}
    _remember(found, "", base, 0, set())
    return found


def _remember(found: dict[str, Any], path: str, value: Any, depth: int, seen: set[int]) -> None:
    if len(found) >= _MOST_REMEMBERED:
        return
    match value:
        case None | bool() | int() | float() | str() | np.number() | np.bool_():
            found[path] = value
        case np.random.Generator():
            found[path] = GeneratorPosition(repr(value.bit_generator.state))
        case np.random.RandomState():
            found[path] = GeneratorPosition(repr(value.get_state(legacy=False)))
        case random.Random():
            found[path] = GeneratorPosition(repr(value.getstate()))
        case np.ndarray():
            if value.dtype != object and value.nbytes <= _MOST_BYTES:
                found[path] = value.copy()
        case list() | tuple() | deque():
            if len(value) <= _MOST_REMEMBERED and all(map(_is_plain, value)):
                found[path] = list(value)
            elif depth < _DEEPEST:
                for index, each in enumerate(value):
                    _remember(found, f"{path}[{index}]", each, depth + 1, seen)
        case set() | frozenset():
            if len(value) <= _MOST_REMEMBERED:
                found[path] = sorted(map(repr, value))
        case _:
            inside = value if isinstance(value, dict) else getattr(value, "__dict__", None)
            module = type(value).__module__
            foreign = isinstance(value, type | ModuleType | spaces.Space) or callable(value) or module == "builtins"
            if not isinstance(inside, dict) or id(value) in seen or depth > _DEEPEST:
                return
            if foreign and not isinstance(value, dict) and depth:
                return
            seen.add(id(value))
            for name, each in list(inside.items()):
                if not (depth == 0 and name in _GYMNASIUMS):
                    _remember(found, f"{path}.{name}" if path else str(name), each, depth + 1, seen)


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float | str | np.number)


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
