"""Environments stepped one after the other in the trainer's own process: SB3's `DummyVecEnv`, with a state.

Of a step in which no episode ends SB3 copies every info deeply, which costs as much as stepping a cheap environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cached_property
from typing import Any

import gymnasium
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from mission_tui.envs import can_save_state, restore_env_state, save_env_state
from mission_tui.errors import CheckpointError, raised_by
from mission_tui.forks import leave_fork
from mission_tui.trainer.failures import EnvError


class InlineVecEnv(DummyVecEnv):
    """`DummyVecEnv` whose environments' exceptions arrive as `EnvError`, and whose state is theirs together."""

    def __init__(self, env_fns: list[Callable[[], gymnasium.Env[Any, Any]]]) -> None:
        super().__init__(env_fns)
        self._monitors = [monitor for monitor in map(_monitor_of, self.envs) if monitor is not None]

    def step_wait(self) -> VecEnvStepReturn:
        if len(self.actions) != self.num_envs:
            raise ValueError(f"{len(self.actions)} actions were given for {self.num_envs} environments")
        try:
            infos = [self._step(lane, action) for lane, action in enumerate(self.actions)]
        except (Exception, SystemExit) as error:  # an environment is foreign code and may raise anything
            leave_fork(error)
            raise EnvError(f"an environment raised {raised_by(error)}") from error
        leave_fork()
        return self._obs_from_buf(), self.buf_rews.copy(), self.buf_dones.copy(), infos

    def _step(self, lane: int, action: Any) -> dict[str, Any]:
        """What `DummyVecEnv` does with one environment; an info that ends no episode is copied, but not deeply."""
        env = self.envs[lane]
        observation, self.buf_rews[lane], terminated, truncated, info = env.step(action)
        self.buf_dones[lane] = ended = terminated or truncated
        if ended:
            cut = truncated and not terminated
            info = deepcopy({**info, "TimeLimit.truncated": cut, "terminal_observation": observation})
            observation, self.reset_infos[lane] = env.reset()
        else:
            info = {**info, "TimeLimit.truncated": False}
        self._save_obs(lane, observation)
        return info

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


def _monitor_of(env: gymnasium.Env[Any, Any]) -> Monitor[Any, Any] | None:
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, Monitor):
            return env
        env = env.env
    return None
