"""Between the trainer and an env worker: what they say to each other, a kind of one byte, and a payload only where
there is one; the recipe by which a worker makes its environments, plain values that any process can be sent, and no
word of presets; and the memory that they share.

Both ends are processes of the same run that trust each other, so payloads are pickled. The first payload is what the
worker is given to do; an exception is told with its environment. The trainer has made one environment from the same
preset before it starts a worker, so what is wrong with a preset was said there; here it would be an exception like any
other. Episode statistics are as SB3's `Monitor` gives them, without importing SB3 and torch with it.

Everything that is said at every step (actions, observations, rewards) goes through shared memory instead: one
anonymous mapping, laid out by the spaces. Every array has the environment as its first axis and begins on a cache line
of its own, and without a name in any file system nothing is left behind however the processes end.

What environments share by themselves may have a name, and a named piece outlives every process; after SIGKILL nobody
is left who would remove it. So what Python's own `SharedMemory` creates in a trainer or an env worker is recorded in
`attempts/N/shared-memory` as it is made, one line each: inode and name. Only what stands there, with that inode, is
ever removed by others.
"""

from __future__ import annotations

import importlib
import mmap
import os
import pickle
import select
import socket
import struct
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium import Space, spaces
from gymnasium.envs.registration import load_env_creator
from numpy.typing import NDArray

from mission_tui.control_groups import usable_cores
from mission_tui.envs.masks import choices
from mission_tui.errors import raised_by
from mission_tui.run_module import looking_elsewhere

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


BEGIN, STEP, CALL, FORM, QUIT = b"a", b"s", b"c", b"f", b"q"
"""The first message brings the assignment; then: call something in some lanes, learn the form of the actions that
follow, close and leave. That all lanes step is said by an eventfd, not in words.
"""
DONE, ERROR = b"d", b"e"
"""The answers: what was asked is done (the payload is its result), or something was raised."""

_HEADER = struct.Struct("=cQ")
_TIMEVAL = struct.Struct("@ll")
_READ = 1 << 14
_AT_ONCE = socket.MSG_DONTWAIT

_SPIN_S = 300e-6
"""Longer than most policies take to act, shorter than any update."""
_CROWDED_S = 1e-3
"""A yield that takes so long: somebody else had work for this core. The trainer between two steps takes less."""
_RESTS, _CROWDED_RESTS = 63, 1023
"""Waits without a spin: at most so many after spins in vain, and so many once the core was somebody else's."""


class Monitor(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Puts ``episode: {r, l, t}`` into the last info of an episode, rounded and summed as SB3 does.

    Its attributes are named as SB3's, so that a saved state fits either. The histories stay empty: SB3's grow for ever.
    """

    stands_for = "stable_baselines3.common.monitor.Monitor"

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.t_start = time.time()
        self.rewards: list[float] = []
        self.needs_reset = True
        self.episode_returns: list[float] = []
        self.episode_lengths: list[int] = []
        self.episode_times: list[float] = []
        self.total_steps = 0
        self.current_reset_info: dict[str, Any] = {}

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; an unfinished one is forgotten."""
        self.rewards = []
        self.needs_reset = False
        return self.env.reset(**arguments)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and count. Raises `RuntimeError` after the end of an episode, as SB3's does."""
        if self.needs_reset:
            raise RuntimeError("Tried to step environment that needs reset")
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.rewards.append(float(reward))
        if terminated or truncated:
            self.needs_reset = True
            info["episode"] = {
                "r": round(sum(self.rewards), 6),
                "l": len(self.rewards),
                "t": round(time.time() - self.t_start, 6),
            }
        self.total_steps += 1
        return observation, reward, terminated, truncated, info


@dataclass(frozen=True, slots=True)
class EnvRecipe:
    """A Gymnasium `id` (or ``module:id``), its arguments, modules to import first, and wrappers: each a ``module:Name``
    and its arguments.
    """

    id: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    imports: tuple[str, ...] = ()
    wrappers: tuple[tuple[str, dict[str, Any]], ...] = ()

    def make(self) -> gymnasium.Env[Any, Any]:
        """One environment, monitored directly and wrapped from the first wrapper to the last."""
        with looking_elsewhere():
            for module in self.imports:
                importlib.import_module(module)
            module, _, name = self.id.rpartition(":")
            if module:
                importlib.import_module(module)
            if (known := gymnasium.registry.get(name)) is not None and isinstance(known.entry_point, str):
                load_env_creator(known.entry_point)
            wrappers = [(_named(name), arguments) for name, arguments in self.wrappers]
        made: gymnasium.Env[Any, Any] = Monitor(gymnasium.make(self.id, **self.kwargs))
        for wrapper, arguments in wrappers:
            made = wrapper(made, **arguments)
        return made


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def frame(kind: bytes, content: Any = None) -> bytes:
    """The bytes of one message. Whatever cannot be pickled raises here, before anything is on its way."""
    payload = b"" if content is None else pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    return _HEADER.pack(kind, len(payload)) + payload


Seen = TypeVar("Seen")


class Spin:
    """Looks again and again for a while before a wait sleeps: to be woken costs 30 to 60 us on virtual processors.

    Between two looks the core is offered to others. Spins that were in vain are soon left out, as in an update or with
    a slow policy; so are all for a while on a core for which others have work, as they would be served first each time.
    """

    def __init__(self) -> None:
        self._rests = self._in_vain = 0

    def receive(self, look: Callable[[], Seen]) -> Seen | None:
        """What `look` sees within 300 us, or None; it raises `BlockingIOError` while nothing is there."""
        if self._rests:
            self._rests -= 1
            return None
        now = time.perf_counter()
        until = now + _SPIN_S
        while now < until:
            try:
                seen = look()
            except BlockingIOError:
                os.sched_yield()
                before, now = now, time.perf_counter()
                if now - before > _CROWDED_S:
                    self._rests = _CROWDED_RESTS
                    return None
            else:
                self._in_vain = 0
                return seen
        self._in_vain = min(2 * self._in_vain + 1, _RESTS)
        self._rests = self._in_vain
        return None


def spins(processes: int) -> bool:
    """Whether each of so many processes has a core on which it may spin."""
    return processes <= usable_cores()


class Channel:
    """One end of a stream socket; with `slice_s`, `receive` looks up that often while nothing comes, and with `spin` it
    sleeps only after that.
    """

    def __init__(self, end: socket.socket, slice_s: float | None = None, spin: Spin | None = None) -> None:
        self._end, self._held, self._spin = end, b"", spin
        if slice_s is not None:
            # The kernel's own time-out: Python's would add a poll to every receive.
            whole = int(slice_s)
            timeval = _TIMEVAL.pack(whole, int((slice_s - whole) * 1e6))
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)

    def fileno(self) -> int:
        """Its descriptor, to be polled with others."""
        return self._end.fileno()

    def send(self, message: bytes) -> None:
        """Send what `frame` made. Raises `OSError` when the other side is gone."""
        self._end.sendall(message)

    def receive(self, silent: Callable[[], None] | None = None) -> tuple[bytes, Any]:
        """The next message; `silent` is called after every slice without a byte and may raise.

        Raises `EOFError` when the other side is gone.
        """
        self._hold(_HEADER.size, silent)
        kind, size = _HEADER.unpack_from(self._held)
        end = _HEADER.size + size
        self._hold(end, silent)
        payload, self._held = self._held[_HEADER.size : end], self._held[end:]
        return kind, pickle.loads(payload) if size else None  # noqa: S301 - from our own child or parent

    def close(self) -> None:
        """Let go of this end; the other side reads the end of the stream."""
        self._end.close()

    def _hold(self, size: int, silent: Callable[[], None] | None) -> None:
        """Read until `size` bytes are held; one read brings a whole message unless it is large."""
        if len(self._held) >= size:
            return
        parts, there = [self._held], len(self._held)
        while there < size:
            part = self._part(max(_READ, size - there), silent)
            parts.append(part)
            there += len(part)
        self._held = b"".join(parts)

    def _part(self, most: int, silent: Callable[[], None] | None) -> bytes:
        while True:
            try:
                part = None if self._spin is None else self._spin.receive(partial(self._end.recv, most, _AT_ONCE))
                if part is None:
                    part = self._end.recv(most)
            except BlockingIOError:
                if silent is not None:
                    silent()
                continue
            except ConnectionResetError as error:
                raise EOFError from error
            if not part:
                raise EOFError
            return part


class Orders:
    """What a worker is asked: over its `channel`, and to step by the eventfd `steps`.

    Writing into a socket wakes a reader for the writer's core, who is taken to be done: of two workers that were asked
    to step one after another both began on the trainer's core. An eventfd wakes it for an idle one.
    """

    def __init__(self, channel: Channel, steps: int, spin: Spin | None) -> None:
        self._channel, self._steps, self._spin = channel, steps, spin
        self._look = partial(os.eventfd_read, steps)
        self._said = channel.fileno()
        self._poll = select.poll()
        for descriptor in (self._said, steps):
            self._poll.register(descriptor, select.POLLIN)

    def receive(self) -> tuple[bytes, Any]:
        """The next of them. Raises `EOFError` when the trainer is gone."""
        if self._spin is not None and self._spin.receive(self._look) is not None:
            return STEP, None
        while True:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            if self._said in ready:
                return self._channel.receive()
            if self._steps in ready:
                os.eventfd_read(self._steps)
                return STEP, None


@dataclass(frozen=True, slots=True)
class Assignment:
    """Worker `index` makes and steps the environments `first` to `behind` - 1; `memory` is a descriptor it inherited.

    `path` is the trainer's module search path: what could be imported there can be imported here.
    """

    recipe: EnvRecipe
    layout: Layout
    memory: int
    index: int
    first: int
    behind: int
    n_envs: int
    all_infos: bool
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception in environment `env`: a sentence, the traceback as text, and itself where it can be pickled."""

    env: int
    sentence: str
    text: str
    error: BaseException | None

    @classmethod
    def of(cls, error: BaseException, env: int) -> Raised:
        """What there is to tell of `error`."""
        text = "".join(traceback.format_exception(error))
        return cls(env, raised_by(error), text, error if _travels(error) else None)


def _travels(error: BaseException) -> bool:
    try:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made in the same line
    except Exception:  # noqa: BLE001 - an exception is foreign code, and so is what pickling it runs
        return False
    return type(copy) is type(error)
