"""Gymnasium's CartPole-v1 for all lanes in one NumPy call, as an SB3 `VecEnv`: it costs next to nothing.

It stands for any batched core in comparisons of trainers, and is the same for both sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

STEPS = 500


class BatchedCartPole(VecEnv):
    """Constants, equations and limits of `gymnasium.envs.classic_control.cartpole`, lanes reset in the same step."""

    def __init__(self, lanes: int, seed: int = 0) -> None:
        super().__init__(lanes, spaces.Box(-np.inf, np.inf, (4,)), spaces.Discrete(2))
        self._dice = np.random.default_rng(seed)
        self._state = np.zeros((4, lanes))
        self._age = np.zeros(lanes, dtype=np.int64)
        self._actions: NDArray[Any] = np.zeros(lanes, dtype=np.int64)

    def reset(self) -> NDArray[np.float32]:
        self._state[:] = self._dice.uniform(-0.05, 0.05, self._state.shape)
        self._age[:] = 0
        return self._state.T.astype(np.float32)

    def step_async(self, actions: NDArray[Any]) -> None:
        self._actions = actions

    def step_wait(self) -> Any:
        x, speed, angle, spin = self._state
        cosine, sine = np.cos(angle), np.sin(angle)
        push = (np.where(self._actions == 1, 10.0, -10.0) + 0.05 * spin**2 * sine) / 1.1
        turn = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine**2 / 1.1))
        self._state += 0.02 * np.stack([speed, push - 0.05 * turn * cosine / 1.1, spin, turn])
        self._age += 1
        fell = (np.abs(x) > 2.4) | (np.abs(angle) > 12 * 2 * np.pi / 360)
        over = fell | (self._age >= STEPS)
        observations = self._state.T.astype(np.float32)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if over.any():
            for lane in np.flatnonzero(over):
                infos[lane] = {
                    "terminal_observation": observations[lane].copy(),
                    "TimeLimit.truncated": not fell[lane],
                    "episode": {"r": float(self._age[lane]), "l": int(self._age[lane]), "t": 0.0},
                }
            self._state[:, over] = self._dice.uniform(-0.05, 0.05, (4, over.sum()))
            self._age[over] = 0
            observations[over] = self._state[:, over].T
        return observations, np.ones(self.num_envs, dtype=np.float32), over, infos

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs
