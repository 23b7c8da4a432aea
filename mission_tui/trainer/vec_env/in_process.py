"""Environments stepped in the trainer's own process: one after the other, or all lanes of a batched one in one call.

The first is SB3's `DummyVecEnv` with a state that can be saved. Of a step in which no episode ends SB3 copies every
info deeply, which costs as much as stepping a cheap environment.

A batched environment must reset in the step that ends an episode, which `native_refusal` checks beforehand. With
Gymnasium's next-step autoreset the first transition of every episode would be a reset that ignores the action, and SB3
would learn from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from mission_tui.envs import StatefulEnv, can_save_state, restore_env_state, save_env_state
from mission_tui.envs.lanes import skip_finished_checks
from mission_tui.envs.masks import MASKS
from mission_tui.errors import CheckpointError, raised_by
from mission_tui.forks import leave_fork
from mission_tui.trainer.failures import EnvError

_FINALS = ("final_info", "final_obs")
_UNCHANGING = frozenset((bool, int, float, str, type(None)))


class InlineVecEnv(DummyVecEnv):
    """`DummyVecEnv` whose environments' exceptions arrive as `EnvError`, and whose state is theirs together."""

    def __init__(self, env_fns: list[Callable[[], gymnasium.Env[Any, Any]]]) -> None:
        super().__init__(env_fns)
        self._lanes = range(self.num_envs)
        self._checking = set(self._lanes)
        self._monitors = [monitor for monitor in map(_monitor_of, self.envs) if monitor is not None]

    def step_wait(self) -> VecEnvStepReturn:
        """What `DummyVecEnv` does; an info that ends no episode is copied, but not deeply.

        Raises `EnvError` for whatever an environment raises.
        """
        _check_number(self.actions, self.num_envs)
        infos: list[dict[str, Any]] = []
        buffers: Mapping[Any, NDArray[Any]] = self.buf_obs
        observations, rewards, dones = buffers.get(None), self.buf_rews, self.buf_dones
        try:
            for lane, env, action in zip(self._lanes, self.envs, self.actions, strict=True):
                observation, rewards[lane], terminated, truncated, info = env.step(action)
                dones[lane] = ended = terminated or truncated
                if ended:
                    cut = truncated and not terminated
                    info = _final({**info, "TimeLimit.truncated": cut, "terminal_observation": observation})
                    observation, self.reset_infos[lane] = env.reset()
                    if lane in self._checking and skip_finished_checks(env):
                        self._checking.remove(lane)
                else:
                    info = {**info, "TimeLimit.truncated": False}
                infos.append(info)
                if observations is None:
                    self._save_obs(lane, observation)
                else:
                    observations[lane] = observation
        except (Exception, SystemExit) as error:  # an environment is foreign code and may raise anything
            leave_fork(error)
            raise EnvError(f"an environment raised {raised_by(error)}") from error
        leave_fork()
        return self._obs_from_buf(), rewards.copy(), dones.copy(), infos

    def _obs_from_buf(self) -> VecEnvObs:
        # SB3 rebuilds a dictionary and looks at the space at every step, whatever the space.
        buffers: Mapping[Any, NDArray[Any]] = self.buf_obs
        return buffers[None].copy() if None in buffers else super()._obs_from_buf()

    def reset(self) -> VecEnvObs:
        try:
            observations = super().reset()
        except (Exception, SystemExit) as error:  # as above
            leave_fork(error)
            raise EnvError(f"an environment raised {raised_by(error)} in reset") from error
        leave_fork()
        return observations

    @cached_property
    def can_save_state(self) -> bool:
        return all(can_save_state(env) for env in self.envs)

    def get_state(self) -> dict[str, Any]:
        for monitor in self._monitors:
            # Monitor keeps every episode for ever; nothing here reads them, and a state would grow with the run.
            for history in (monitor.episode_returns, monitor.episode_lengths, monitor.episode_times):
                history.clear()
        return {"envs": [save_env_state(env) for env in self.envs]}

    def set_state(self, state: dict[str, Any]) -> None:
        if len(state["envs"]) != self.num_envs:
            there = len(state["envs"])
            raise CheckpointError(f"the checkpoint holds {there} environments, this run has {self.num_envs}")
        for env, saved in zip(self.envs, state["envs"], strict=True):
            restore_env_state(env, saved)


def _final(info: dict[str, Any]) -> dict[str, Any]:
    """What `deepcopy` gives, in half the time for what the last infos of episodes are mostly made of."""
    return {name: {**part} if name == "episode" and _is_flat(part) else _copied(part) for name, part in info.items()}


def _copied(part: Any) -> Any:
    if type(part) in _UNCHANGING:
        return part
    return part.copy() if type(part) is np.ndarray and not part.dtype.hasobject else deepcopy(part)


def _is_flat(part: Any) -> bool:
    return type(part) is dict and all(type(value) in _UNCHANGING for value in part.values())


def _monitor_of(env: gymnasium.Env[Any, Any]) -> Monitor[Any, Any] | None:
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, Monitor):
            return env
        env = env.env
    return None


class NativeVecEnv(VecEnv):
    """`envs` behind SB3's interface, with the episode statistics that `Monitor` gives single environments.

    Infos are passed on for lanes whose episode ended; nothing in training reads the others, so it takes `all_infos`.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any], *, all_infos: bool = False) -> None:
        assert envs.metadata.get("autoreset_mode") is AutoresetMode.SAME_STEP
        self.envs = envs
        self._all_infos = all_infos
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)
        self._begun_s = time.monotonic()
        self._actions: NDArray[Any] = np.empty(0)

    def reset(self) -> VecEnvObs:
        seeds = self._seeds if any(seed is not None for seed in self._seeds) else None
        try:
            observations, _ = self.envs.reset(seed=seeds)  # type: ignore[arg-type]  # a list of seeds is part of the API
        except (Exception, SystemExit) as error:  # an environment is foreign code and may raise anything
            leave_fork(error)
            raise EnvError(f"the environment raised {raised_by(error)} in reset") from error
        leave_fork()
        self._reset_seeds()
        self._reset_options()
        self._returns[:] = 0.0
        self._lengths[:] = 0
        return copied(observations)

    def step_async(self, actions: NDArray[Any]) -> None:
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        _check_number(self._actions, self.num_envs)
        try:
            observations, rewards, terminated, truncated, vector_infos = self.envs.step(self._actions)
        except (Exception, SystemExit) as error:  # as in reset
            leave_fork(error)
            raise EnvError(f"the environment raised {raised_by(error)}") from error
        leave_fork()
        dones = terminated | truncated
        self._returns += rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if self._all_infos:
            going_on = {key: value for key, value in vector_infos.items() if not key.endswith(_FINALS)}
            infos = [_lane_info(going_on, lane) | {"TimeLimit.truncated": False} for lane in range(self.num_envs)]
        for lane in np.flatnonzero(dones):
            infos[lane] = self._final_info(vector_infos, int(lane), bool(truncated[lane] and not terminated[lane]))
        self._returns[dones] = 0.0
        self._lengths[dones] = 0
        # Copies: SB3 adds to rewards in place and keeps observations over the next step.
        return copied(observations), rewards.astype(np.float32), dones.copy(), infos

    def _final_info(self, vector_infos: dict[str, Any], lane: int, out_of_time: bool) -> dict[str, Any]:
        info = _lane_info(vector_infos.get("final_info", {}), lane)
        info["terminal_observation"] = vector_infos["final_obs"][lane]
        info["TimeLimit.truncated"] = out_of_time
        info["episode"] = {
            "r": round(float(self._returns[lane]), 6),
            "l": int(self._lengths[lane]),
            "t": round(time.monotonic() - self._begun_s, 6),
        }
        return info

    def action_masks(self) -> Any:
        """Which choices are allowed in every lane, shape (n_envs, choices), if the environment says so."""
        return self.envs.action_masks()  # type: ignore[attr-defined]

    @property
    def can_save_state(self) -> bool:
        return isinstance(self.envs, StatefulEnv)

    def get_state(self) -> dict[str, Any]:
        assert isinstance(self.envs, StatefulEnv)
        return {"env": self.envs.get_state(), "returns": self._returns.copy(), "lengths": self._lengths.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        assert isinstance(self.envs, StatefulEnv)
        self.envs.set_state(state["env"])
        self._returns[:] = state["returns"]
        self._lengths[:] = state["lengths"]

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return [getattr(self.envs, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        setattr(self.envs, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        result = getattr(self.envs, method_name)(*method_args, **method_kwargs)
        lanes = list(self._get_indices(indices))
        # Masks of all lanes come in one array; sb3-contrib, which asks lane by lane, gets each lane its own.
        return [result[lane] for lane in lanes] if method_name == MASKS else [result] * len(lanes)

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        # What SB3 asks a Monitor for is in the infos.
        return [wrapper_class is Monitor] * len(list(self._get_indices(indices)))

    def get_images(self) -> Sequence[NDArray[Any] | None]:
        frames: Any = self.envs.render()
        return [None] * self.num_envs if frames is None else list(frames)


def _check_number(actions: Any, lanes: int) -> None:
    """A caller's mistake is no `EnvError`: raises `ValueError`."""
    if len(actions) != lanes:
        raise ValueError(f"{len(actions)} actions were given for {lanes} environments")


def copied(observations: Any) -> VecEnvObs:
    if isinstance(observations, dict):
        return {name: np.array(part) for name, part in observations.items()}
    return np.array(observations)


def _lane_info(infos: dict[str, Any], lane: int) -> dict[str, Any]:
    """One lane of Gymnasium's vector infos, where ``_key`` masks the lanes that have ``key``."""
    info: dict[str, Any] = {}
    for key, values in infos.items():
        mask = infos.get(f"_{key}")
        if mask is None or not mask[lane]:
            continue
        info[key] = _lane_info(values, lane) if isinstance(values, dict) else values[lane]
    return info
