"""The memory that a trainer and its env workers share, and the names of what environments share by themselves.

Ours is one anonymous mapping, laid out by the spaces: every array has the environment as its first axis and begins on a
cache line of its own, and without a name in any file system nothing is left behind however the processes end.

A named piece outlives every process; after SIGKILL nobody is left who would remove it. So what Python's own
`SharedMemory` creates in a trainer or an env worker is recorded in `attempts/N/shared-memory` as it is made, one line
each: inode and name. Only what stands there, with that inode, is ever removed by others.
"""

from __future__ import annotations

import importlib
import mmap
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from mission_tui.envs.masks import choices

_LINE = 64
_WIDEST = 8
"""Bytes kept for each number of an action: policies may send another type than the space's, as for MultiBinary."""

ActionForm = tuple[str, tuple[int, ...]]
"""Type and shape of the action of one environment as it lies in memory."""
_Place = tuple[int, str, tuple[int, ...]]

RECORD = "shared-memory"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything lies: offset, type and shape of each array.

    `observations` has the key None, and `finals` is there, where the space is one array and no Dict.
    """

    size: int
    observations: dict[str | None, _Place]
    finals: _Place | None
    rewards: _Place
    dones: _Place
    masks: _Place
    lives: _Place
    actions: int
    actions_bytes: int

    @classmethod
    def of(cls, observation_space: Space[Any], action_space: Space[Any], n_envs: int, n_workers: int) -> Layout:
        """The layout for `n_envs` environments of these spaces. Raises `ValueError` for a space without arrays."""
        end = 0

        def take(dtype: Any, shape: tuple[int, ...]) -> _Place:
            nonlocal end
            place = end, np.dtype(dtype).str, shape
            end += -(-np.dtype(dtype).itemsize * prod(shape) // _LINE) * _LINE
            return place

        observations = {
            key: take(part.dtype, (n_envs, *_shape(part))) for key, part in _parts(observation_space).items()
        }
        finals = None
        if None in observations:
            finals = take(observations[None][1], observations[None][2])
        rewards, dones = take(np.float32, (n_envs,)), take(np.bool_, (n_envs,))
        masks = take(np.bool_, (n_envs, sum(choices(action_space))))
        lives = take(np.int64, (n_workers, _LINE // 8))
        width = _WIDEST * max(1, prod(_shape(action_space)))
        actions, _, _ = take(np.uint8, (n_envs * width,))
        return cls(end, observations, finals, rewards, dones, masks, lives, actions, n_envs * width)


class SharedArrays:
    """The arrays of `layout` in the memory behind `descriptor`.

    `observations` by key, `finals` like them for the last observations of episodes (None for a Dict), `rewards` float32
    (n_envs,), `dones` (n_envs,), `masks` (n_envs, choices) once they are asked for, and `lives` (n_workers, 8):
    environment at work, environment steps done, answers given and nanoseconds in steps, written by the worker alone.
    """

    def __init__(self, layout: Layout, descriptor: int) -> None:
        self._layout = layout
        self._memory = mmap.mmap(descriptor, layout.size)
        self.observations = {key: self._array(place) for key, place in layout.observations.items()}
        self.finals = None if layout.finals is None else self._array(layout.finals)
        self.rewards: NDArray[np.float32] = self._array(layout.rewards)
        self.dones: NDArray[np.bool_] = self._array(layout.dones)
        self.masks: NDArray[np.bool_] = self._array(layout.masks)
        self.lives: NDArray[np.int64] = self._array(layout.lives)

    def copied_observations(self) -> Any:
        """An array, or one by key for a Dict: SB3 keeps them over the next step, which overwrites what is shared."""
        copies = {key: array.copy() for key, array in self.observations.items()}
        return copies.get(None, copies)

    def actions(self, form: ActionForm, n_envs: int) -> NDArray[Any]:
        """The actions of all environments, seen as `form`. Raises `ValueError` where they cannot fit."""
        dtype, shape = np.dtype(form[0]), form[1]
        if dtype.hasobject or dtype.itemsize * n_envs * prod(shape) > self._layout.actions_bytes:
            raise ValueError(f"actions of type {dtype} and shape {(n_envs, *shape)} do not fit the action space")
        return self._array((self._layout.actions, form[0], (n_envs, *shape)))

    def _array(self, place: _Place) -> NDArray[Any]:
        offset, dtype, shape = place
        return np.frombuffer(self._memory, np.dtype(dtype), prod(shape), offset).reshape(shape)


def anonymous_memory(size: int) -> int:
    """A descriptor of `size` zero bytes without a name; the caller closes it once it is mapped everywhere."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("mission-tui-envs")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def _parts(space: Space[Any]) -> dict[str | None, Space[Any]]:
    if isinstance(space, spaces.Dict):
        return {key: part for key, part in space.spaces.items()}  # noqa: C416 - the key's type is wider here
    return {None: space}


def _shape(space: Space[Any]) -> tuple[int, ...]:
    if space.shape is None or space.dtype is None:
        raise ValueError(f"the space {space} is not one array, or a Dict of arrays, and cannot be shared")
    return space.shape


def record_shared_names(environ: Mapping[str, str]) -> None:
    """From now on write down what this process and its forks create; without a run in `environ` nothing is done."""
    folder, attempt = environ.get("MISSION_TUI_RUN_DIR"), environ.get("MISSION_TUI_ATTEMPT")
    if not folder or not attempt:
        return
    try:
        memory: Any = importlib.import_module("_posixshmem")
    except ImportError:  # a Python without shared memory makes no names either
        return
    path, opened = Path(folder) / "attempts" / attempt / RECORD, memory.shm_open
    if getattr(opened, "records", None):
        return

    def shm_open(path_: str, flags: int, mode: int = 0o777) -> int:
        descriptor: int = opened(path_, flags, mode)
        if flags & os.O_CREAT:
            # A record that cannot be written must not cost an environment its memory.
            with suppress(OSError):
                _write_down(path, os.fstat(descriptor).st_ino, path_.lstrip("/"))
        return descriptor

    replaced: Any = shm_open
    replaced.records = True
    memory.shm_open = replaced


def _write_down(path: Path, inode: int, name: str) -> None:
    # One write of one line: workers append to the same file at the same time.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, os.fsencode(f"{inode} {name}\n"))
    finally:
        os.close(descriptor)
