"""Action masks of vectorised environments: which choices are allowed now, asked of every environment and checked.

Whatever an environment answers wrongly is an `EnvError` that names it, before the policy samples from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from mission_tui.envs.masks import MASKS, choices, sampled
from mission_tui.errors import raised_by
from mission_tui.trainer.failures import EnvError
from mission_tui.trainer.spaces import short
from mission_tui.trainer.vec_env.in_process import NativeVecEnv
from mission_tui.trainer.vec_env.workers import WorkersVecEnv

Masks = NDArray[np.bool_]


class MaskedVecEnv(VecEnvWrapper):
    """`venv`, whose `action_masks` are answered together and only if a policy can sample from them."""

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self._sizes = choices(venv.action_space)
        self._starts = np.cumsum([0, *self._sizes[:-1]])

    def reset(self) -> VecEnvObs:
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        return self.venv.step_wait()

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        if method_name == MASKS and indices is None:
            # In one piece, which stacks to the same numbers: thousands of rows take longer to stack than to step.
            return [self.masks()]
        return self.venv.env_method(method_name, *method_args, indices=indices, **method_kwargs)

    def masks(self) -> Masks:
        """Which choices are allowed, shape (n_envs, choices of all heads side by side). Raises `EnvError`."""
        base = self.venv.unwrapped
        try:
            if isinstance(base, NativeVecEnv | WorkersVecEnv):
                asked: Any = base.action_masks()
            else:
                asked = self.venv.env_method(MASKS)
            masks = np.asarray(asked, dtype=bool).reshape(self.num_envs, -1)
        except EnvError:
            raise
        except Exception as error:  # an environment is foreign code and may raise anything
            raise EnvError(f"{MASKS}() of an environment raised {raised_by(error)}") from error
        self._check(masks)
        return masks

    def sample(self, masks: Masks) -> NDArray[Any]:
        """One action for each environment by chance, of those that are allowed."""
        return np.stack([sampled(self.action_space, row) for row in masks])

    def _check(self, masks: Masks) -> None:
        if masks.shape[1] != sum(self._sizes):
            needed, space = sum(self._sizes), short(self.action_space)
            raise EnvError(f"{MASKS}() has {masks.shape[1]} entries, and actions {space} need {needed}")
        allowed = np.logical_or.reduceat(masks, self._starts, axis=1)
        if not allowed.all():
            lane, head = np.argwhere(~allowed)[0]
            part = f" for part {head} of it" if len(self._sizes) > 1 else ""
            raise EnvError(f"{MASKS}() of environment {lane} allows no action{part}; one at least must be allowed")
