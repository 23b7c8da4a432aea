"""A batched Gymnasium environment as an SB3 VecEnv: one call steps all lanes.

Only same-step autoreset will do, which `native_refusal` checks beforehand. With next-step autoreset the first
transition of every episode would be a reset that ignores the action, and SB3 would learn from it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from mission_tui.envs import StatefulEnv
from mission_tui.errors import raised_by
from mission_tui.forks import leave_fork
from mission_tui.trainer.failures import EnvError

_FINALS = ("final_info", "final_obs")


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
        return _copied(observations)

    def step_async(self, actions: NDArray[Any]) -> None:
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
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
        return _copied(observations), rewards.astype(np.float32), dones.copy(), infos

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
        return [result] * len(list(self._get_indices(indices)))

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        # What SB3 asks a Monitor for is in the infos.
        return [wrapper_class is Monitor] * len(list(self._get_indices(indices)))

    def get_images(self) -> Sequence[NDArray[Any] | None]:
        frames: Any = self.envs.render()
        return [None] * self.num_envs if frames is None else list(frames)


def _copied(observations: Any) -> VecEnvObs:
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
