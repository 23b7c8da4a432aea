"""Saving and restoring environments exactly: after `restore_env_state` the future is bit-identical.

A state is a nested dictionary of NumPy arrays and JSON values, so it can be kept without pickle. MissionGym speaks the
protocol itself; Gymnasium's classic control is covered by a table of its attributes. Wrappers are covered when all that
they carry is known; anything else is refused by `can_save_state` instead of being saved by halves. A random generator
is six machine words, the exact position of its PCG64 stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mission_tui.errors import CheckpointError

State = dict[str, Any]
Words = NDArray[np.uint64]

_MASK = (1 << 64) - 1
_COUNT = 6


@runtime_checkable
class StatefulEnv(Protocol):
    """An environment, single or vector, whose future follows from `get_state()` and the actions alone.

    The state holds everything that changes, random generators included, as arrays and JSON values that share no
    memory with the environment. `set_state` accepts it on any instance built with the same arguments and raises
    `CheckpointError` when it does not fit.
    """

    def get_state(self) -> State:
        """A copy of the state."""
        ...

    def set_state(self, state: State) -> None:
        """Continue from `state`."""
        ...


_CLASSIC_CONTROL: dict[str, tuple[str, ...]] = {
    "CartPoleEnv": ("state", "steps_beyond_terminated"),
    "AcrobotEnv": ("state",),
    "MountainCarEnv": ("state",),
    "Continuous_MountainCarEnv": ("state",),
    "PendulumEnv": ("state", "last_u"),
}
_WRAPPERS: dict[str, tuple[str, ...]] = {
    "TimeLimit": ("_elapsed_steps",),
    "OrderEnforcing": ("_has_reset",),
    "PassiveEnvChecker": (),
    "HiddenVelocity": (),
    "Monitor": (
        "rewards",
        "needs_reset",
        "episode_returns",
        "episode_lengths",
        "episode_times",
        "total_steps",
        "current_reset_info",
    ),
}
_WRAPPERS_OF = ("gymnasium.wrappers.", "stable_baselines3.common.monitor", "mission_tui.envs.")
"""Where those wrappers come from: another of the same name carries nobody knows what."""
CHECKS_DONE = ("checked_reset", "checked_step", "checked_data_reuse")
"""What `PassiveEnvChecker` notes: all true, and it looks at nothing any more."""


def can_save_state(env: Any) -> bool:
    """Whether `save_env_state` covers this environment and every wrapper around it."""
    base = env.unwrapped
    known = isinstance(base, StatefulEnv) or _is_classic_control(base)
    generators = [g for g in (base._np_random, env.action_space._np_random) if g is not None]
    return (
        known
        and all(_is_known(wrapper) for wrapper in _wrappers(env))
        and all(is_portable(generator) for generator in generators)
    )


def tested_class(base: Any) -> bool:
    """Whether tests hold the environment to its word: it is ours, or one of the table above."""
    return type(base).__module__.startswith("mission_tui.envs.") or _is_classic_control(base)


def save_env_state(env: Any) -> State:
    """The state of `env` with its wrappers, its generator and that of its action space.

    Raises `CheckpointError` if `can_save_state` is false.
    """
    if not can_save_state(env):
        raise CheckpointError(f"the state of {env} cannot be saved: a wrapper or the environment itself is not known")
    base = env.unwrapped
    if isinstance(base, StatefulEnv):
        inner = base.get_state()
    else:
        inner = {name: _plain(getattr(base, name)) for name in _CLASSIC_CONTROL[type(base).__name__]}
        inner["np_random"] = generator_words(base.np_random)
    sampler = env.action_space._np_random
    return {
        "env": inner,
        "action_space": None if sampler is None else generator_words(sampler),
        "wrappers": [
            {"class": type(wrapper).__name__}
            | {name: _plain(getattr(wrapper, name)) for name in _WRAPPERS[type(wrapper).__name__]}
            for wrapper in _wrappers(env)
        ],
    }


def restore_env_state(env: Any, state: State) -> None:
    """Continue `env`, built and wrapped like the one that was saved, from `state`.

    Raises `CheckpointError` if it is wrapped differently or the state does not fit.
    """
    wrappers = list(_wrappers(env))
    saved, found = [entry["class"] for entry in state["wrappers"]], [type(wrapper).__name__ for wrapper in wrappers]
    if saved != found:
        raise CheckpointError(f"the state was saved with the wrappers {saved}, this environment has {found}")
    base = env.unwrapped
    if isinstance(base, StatefulEnv):
        base.set_state(state["env"])
    elif _is_classic_control(base):
        for name in _CLASSIC_CONTROL[type(base).__name__]:
            setattr(base, name, _plain(state["env"][name]))
        base.np_random = generator_from_words(state["env"]["np_random"])
    else:
        raise CheckpointError(f"the state of {env} cannot be restored: this environment is not known")
    sampler = state["action_space"]
    env.action_space._np_random = None if sampler is None else generator_from_words(sampler)
    for wrapper, entry in zip(wrappers, state["wrappers"], strict=True):
        for name in _WRAPPERS[entry["class"]]:
            setattr(wrapper, name, _plain(entry[name]))
        # The checker compares consecutive calls by identity, which no saved state can carry on.
        for name in CHECKS_DONE if entry["class"] == "PassiveEnvChecker" else ():
            setattr(wrapper, name, True)


def _wrappers(env: Any) -> Iterator[Any]:
    while env is not env.unwrapped:
        yield env
        env = env.env


def _is_known(wrapper: Any) -> bool:
    cls = type(wrapper)
    return cls.__name__ in _WRAPPERS and cls.__module__.startswith(_WRAPPERS_OF)


def _is_classic_control(base: Any) -> bool:
    cls = type(base)
    return cls.__name__ in _CLASSIC_CONTROL and cls.__module__.startswith("gymnasium.envs.classic_control.")


def _plain(value: Any) -> Any:
    """A copy that shares nothing; MountainCar's tuple of floats becomes the array that its own reset would set."""
    match value:
        case np.ndarray():
            return value.copy()
        case np.generic():
            return value.item()
        case tuple():
            return np.array(value, dtype=np.float64)
        case list():
            return list(value)
        case dict():
            return dict(value)
        case _:
            return value


def is_portable(generator: np.random.Generator) -> bool:
    """Whether `generator_words` can describe it: Gymnasium's and NumPy's default bit generator is."""
    return type(generator.bit_generator) is np.random.PCG64


def generator_words(generator: np.random.Generator) -> Words:
    """The generator's position: state and increment, high word first, then the buffered half word and its flag."""
    position = generator.bit_generator.state
    state, increment = position["state"]["state"], position["state"]["inc"]
    buffer = position["uinteger"], position["has_uint32"]
    return np.array([state >> 64, state & _MASK, increment >> 64, increment & _MASK, *buffer], dtype=np.uint64)


def generator_from_words(words: Words) -> np.random.Generator:
    """A generator at the position that `generator_words` described; raises `CheckpointError` for another shape."""
    if words.shape != (_COUNT,) or words.dtype != np.uint64:
        found = f"{words.dtype}{list(words.shape)}"
        raise CheckpointError(f"environment state: a generator is {_COUNT} words of uint64, found {found}")
    high, low, inc_high, inc_low, buffered, has_buffered = (int(word) for word in words)
    bit_generator = np.random.PCG64()
    bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": high << 64 | low, "inc": inc_high << 64 | inc_low},
        "has_uint32": has_buffered,
        "uinteger": buffered,
    }
    return np.random.Generator(bit_generator)


def stack_words(generators: Sequence[np.random.Generator]) -> Words:
    """Positions of several generators, one row of words each."""
    return np.stack([generator_words(generator) for generator in generators])
