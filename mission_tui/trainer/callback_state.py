"""What callbacks have counted, kept with checkpoints: their plain attributes that changed since they were made.

SB3 keeps nothing of them, so after a resume its own would forget the best mean and count their calls anew. What never
changed comes from the preset, so that a resume may change it; what is no plain value is made anew as SB3 would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from mission_tui.trainer.tree import Tree

_NOT_THEIRS = frozenset({"num_timesteps", "locals", "globals", "model", "parent", "verbose"})
_MOST = 10_000
"""Values in one attribute: a boundary copies them before every rollout."""


class CallbackState:
    """The memory of `callbacks` and of the callbacks that are their attributes."""

    def __init__(self, callbacks: Sequence[BaseCallback]) -> None:
        self._callbacks = tuple(callbacks)
        self._fresh: dict[str, Tree] = {}

    def begin(self) -> None:
        """What they hold now is how they are made."""
        self._fresh = {path: _plain_attributes(callback) for path, callback in self._each()}

    @property
    def state(self) -> Tree:
        """By class and place, the attributes that changed since `begin`."""
        state = {}
        for path, callback in self._each():
            fresh = self._fresh.get(path, {})
            held = _plain_attributes(callback)
            state[path] = {
                name: value for name, value in held.items() if name not in fresh or not _same(value, fresh[name])
            }
        return state

    def restore(self, state: Tree | None) -> None:
        """Give those of the same class in the same place what they had."""
        for path, callback in self._each():
            for name, value in (state or {}).get(path, {}).items():
                setattr(callback, name, value)

    def _each(self) -> Iterator[tuple[str, BaseCallback]]:
        for index, callback in enumerate(self._callbacks):
            yield from _with_inner(f"{index}", callback, set())


def _with_inner(place: str, callback: BaseCallback, seen: set[int]) -> Iterator[tuple[str, BaseCallback]]:
    if id(callback) in seen:
        return
    seen.add(id(callback))
    cls = type(callback)
    yield f"{place} {cls.__module__}:{cls.__qualname__}", callback
    for name, value in vars(callback).items():
        if name == "parent":
            continue
        for index, item in enumerate(value if isinstance(value, list) else (value,)):
            if isinstance(item, BaseCallback):
                yield from _with_inner(f"{place}.{name}.{index}", item, seen)


def _plain_attributes(callback: BaseCallback) -> Tree:
    held = {}
    for name, value in vars(callback).items():
        if name in _NOT_THEIRS:
            continue
        counted = _Count()
        copy = _copied(value, counted)
        if copy is not _NOT_PLAIN:
            held[name] = copy
    return held


class _Count:
    """How many values were copied."""

    def __init__(self) -> None:
        self.done = 0


_NOT_PLAIN = object()


def _copied(value: Any, count: _Count) -> Any:
    """A copy that a checkpoint can keep; `_NOT_PLAIN` for everything else and for what is too much."""
    count.done += value.size if isinstance(value, np.ndarray) else 1
    if count.done > _MOST:
        return _NOT_PLAIN
    match value:
        case np.ndarray():
            return _NOT_PLAIN if value.dtype.hasobject else value.copy()
        case np.generic():
            return value.item()
        case None | bool() | int() | float() | str():
            return value
        case list():
            items = [_copied(item, count) for item in value]
            return _NOT_PLAIN if any(item is _NOT_PLAIN for item in items) else items
        case dict():
            if not all(isinstance(key, str) for key in value):
                return _NOT_PLAIN
            parts = {key: _copied(item, count) for key, item in value.items()}
            return _NOT_PLAIN if any(item is _NOT_PLAIN for item in parts.values()) else parts
    return _NOT_PLAIN


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and np.array_equal(one, other)
    if isinstance(one, list | Mapping):
        return type(one) is type(other) and _tree_same(one, other)
    return bool(one == other)


def _tree_same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
