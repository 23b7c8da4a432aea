"""The environments of one worker, stepped one after the other exactly as SB3's `DummyVecEnv` steps them; and what else
each can be asked: attributes, methods, state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from numpy.typing import NDArray

from mission_tui.envs.channel import ActionForm, SharedArrays
from mission_tui.envs.masks import MASKS
from mission_tui.envs.state import CHECKS_DONE, can_save_state, restore_env_state, save_env_state
from mission_tui.forks import FORKED, leave_fork

FINAL = "terminal_observation"
"""SB3's key of an episode's last observation; an info that lacks it has it in the shared array."""

LaneStep = tuple[int, dict[str, Any], dict[str, Any] | None]
"""Environment, what its step said, and what the reset after it said if the episode ended."""
Env = gymnasium.Env[Any, Any]


@dataclass(frozen=True, slots=True)
class LaneQuery:
    """A call to some environments: `what`, and for each environment (by its number) the arguments.

    Reset, mask (from then on with every step), or one of `QUESTIONS`.
    """

    what: str
    lanes: Sequence[tuple[int, tuple[Any, ...]]]


class Lanes:
    """The environments `numbers` of all, with their rows of the shared arrays; none until `make`.

    `all_infos` tells every info that is not empty, else only those of the steps that end an episode.
    """

    def __init__(self, arrays: SharedArrays, worker: int, numbers: range, all_infos: bool) -> None:
        self._life = memoryview(arrays.lives[worker])
        self._arrays, self._all_infos, self._numbers = arrays, all_infos, numbers
        self._first, self._rows = numbers.start, slice(numbers.start, numbers.stop)
        self._observations = {key: array[self._rows] for key, array in arrays.observations.items()}
        self._finals = None if arrays.finals is None else arrays.finals[self._rows]
        self._rewards, self._dones = arrays.rewards[self._rows], arrays.dones[self._rows]
        self._masks, self._masking = arrays.masks[self._rows], dict[int, Callable[[], Any]]()
        self._actions: NDArray[Any] = np.empty(0)
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self._checking = set(range(len(numbers)))

    def make(self, make: Callable[[], gymnasium.Env[Any, Any]]) -> None:
        """Make the environments, one by one."""
        for index in self._numbers:
            self._life[0] = index
            self._envs.append(make())

    @property
    def at(self) -> int:
        """The number of the environment that was last at work."""
        return int(self._life[0])

    @property
    def can_save_state(self) -> bool:
        return all(can_save_state(env) for env in self._envs)

    def form(self, form: ActionForm, n_envs: int) -> None:
        """From now on actions have this type and shape."""
        self._actions = self._arrays.actions(form, n_envs)[self._rows]

    def step(self) -> list[LaneStep]:
        """One step of every environment with the shared actions; ended episodes begin anew at once."""
        begun_ns, lane_steps, forked = time.perf_counter_ns(), list[LaneStep](), FORKED
        life, first, rewards, dones = self._life, self._first, self._rewards, self._dones
        # A copy: an environment may keep its last action.
        for lane, (env, action) in enumerate(zip(self._envs, self._actions.copy(), strict=True)):
            life[0] = first + lane
            said = env.step(action)
            if forked:  # before anything is written where the trainer reads
                leave_fork()
            observation, rewards[lane], terminated, truncated, info = said
            dones[lane] = done = terminated or truncated
            if done:
                info["TimeLimit.truncated"] = truncated and not terminated
                self._keep_final(lane, observation, info)
                observation, reset_info = env.reset()
                if forked:
                    leave_fork()
                if lane in self._checking and skip_finished_checks(env):
                    self._checking.remove(lane)
                lane_steps.append((first + lane, info, reset_info))
            elif info and self._all_infos:
                info["TimeLimit.truncated"] = False
                lane_steps.append((first + lane, info, None))
            self._observe(lane, observation)
            if self._masking:
                self._keep_mask(lane)
        life[1] += len(self._envs)
        life[3] += time.perf_counter_ns() - begun_ns
        return lane_steps

    def call(self, ask: LaneQuery) -> list[Any]:
        """The answers of the environments in the order in which they were asked."""
        answers = []
        for index, arguments in ask.lanes:
            self._life[0] = index
            answers.append(self._answer(ask.what, index - self._first, arguments))
        return answers

    def count_answer(self) -> None:
        """What was asked is done: the trainer sees it even while it waits for another worker."""
        self._life[2] += 1

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _answer(self, what: str, lane: int, arguments: tuple[Any, ...]) -> Any:
        match what:
            case "reset":
                return self._reset(lane, *arguments)
            case "mask":
                return self._mask(lane)
            case _:
                return QUESTIONS[what](self._envs[lane], *arguments)

    def _observe(self, lane: int, observation: Any) -> None:
        for key, rows in self._observations.items():
            rows[lane] = observation if key is None else observation[key]

    def _keep_final(self, lane: int, observation: Any, info: dict[str, Any]) -> None:
        """Into the shared array if nothing of it is lost there, which its form tells; else on its way with the info."""
        finals = self._finals
        fits = finals is not None and isinstance(observation, np.ndarray) and observation.dtype == finals.dtype
        if fits and finals is not None and observation.shape == finals.shape[1:]:
            finals[lane] = observation
            info.pop(FINAL, None)
        else:
            info[FINAL] = observation

    def _mask(self, lane: int) -> None:
        """Its action mask, now and from now on after every step."""
        self._masking[lane] = self._envs[lane].get_wrapper_attr(MASKS)
        self._keep_mask(lane)

    def _keep_mask(self, lane: int) -> None:
        mask = np.asarray(self._masking[lane](), dtype=bool).ravel()
        if mask.size != self._masks.shape[1]:
            raise ValueError(f"{MASKS}() has {mask.size} entries, and its actions need {self._masks.shape[1]}")
        self._masks[lane] = mask

    def _reset(self, lane: int, seed: int | None, options: dict[str, Any]) -> dict[str, Any]:
        observation, info = self._envs[lane].reset(seed=seed, **({"options": options} if options else {}))
        leave_fork()
        self._observe(lane, observation)
        return info


class _StepPast:
    """The step of the environment behind some wrappers, whatever that is by now; copied with them it is the copy's."""

    __slots__ = ("_behind",)

    def __init__(self, behind: Env) -> None:
        self._behind = behind

    def __call__(self, action: Any) -> Any:
        return self._behind.step(action)


def skip_finished_checks(env: Env) -> bool:
    """Let steps go past those of Gymnasium's own wrappers in `env` that have nothing left to check; whether all have.

    `OrderEnforcing` asks for a first reset and `PassiveEnvChecker` looks at the first calls. From then on both hand on
    every step as it is, which takes 3 to 6 % of a cheap one. All else (reset, render, attributes) goes through them.
    """
    finished = True
    while isinstance(env, gymnasium.Wrapper):
        behind: Env = env
        while isinstance(behind, OrderEnforcing | PassiveEnvChecker) and _only_hands_on(behind):
            behind = behind.env
        if behind is not env:
            env.step = _StepPast(behind)  # type: ignore[method-assign]
        elif isinstance(env, OrderEnforcing | PassiveEnvChecker):
            finished = False
        env = env.env
    return finished


def _only_hands_on(wrapper: OrderEnforcing[Any, Any] | PassiveEnvChecker[Any, Any]) -> bool:
    # A class of its own may do more in a step, and another release of Gymnasium may note what was checked otherwise.
    if type(wrapper) is OrderEnforcing:
        return getattr(wrapper, "_has_reset", False) is True
    return type(wrapper) is PassiveEnvChecker and all(getattr(wrapper, name, False) is True for name in CHECKS_DONE)


def _method(env: Env, name: str, arguments: Any, named: dict[str, Any]) -> Any:
    return env.get_wrapper_attr(name)(*arguments, **named)


def _get(env: Env, name: str) -> Any:
    return env.get_wrapper_attr(name)


def _has(env: Env, name: str) -> bool:
    return env.has_wrapper_attr(name)


def _set(env: Env, name: str, value: Any) -> None:
    setattr(env, name, value)


def _render(env: Env) -> Any:
    return env.render()


def _is_wrapped(env: Env, name: str) -> bool:
    while isinstance(env, gymnasium.Wrapper):
        classes = type(env).__mro__
        if any(name in (f"{cls.__module__}.{cls.__qualname__}", vars(cls).get("stands_for")) for cls in classes):
            return True
        env = env.env
    return False


QUESTIONS: Mapping[str, Callable[..., Any]] = {
    "method": _method,
    "get": _get,
    "has": _has,
    "set": _set,
    "render": _render,
    "is_wrapped": _is_wrapped,
    "save": save_env_state,
    "restore": restore_env_state,
}
"""By their words; each takes the environment and the arguments of the question."""
