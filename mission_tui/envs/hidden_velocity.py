"""Classic control with its velocities hidden: what moves how fast must be remembered, which only a memory can."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

_VELOCITIES = {
    "CartPole": (1, 3),
    "Acrobot": (4, 5),
    "MountainCar": (1,),
    "MountainCarContinuous": (1,),
    "Pendulum": (2,),
}
"""Where the observation of each task holds velocities."""


class HiddenVelocity(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Velocities read 0, everything else is as it was. Raises `ValueError` for a task that it does not know."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        spec = env.unwrapped.spec
        task = str(env.unwrapped) if spec is None else spec.id.rpartition("-")[0]
        if task not in _VELOCITIES:
            raise ValueError(f"the velocities of {task} are not known; known are {', '.join(_VELOCITIES)}")
        self._shown = np.ones(env.observation_space.shape or (), dtype=np.float32)
        self._shown[list(_VELOCITIES[task])] = 0.0

    def observation(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        """`observation`, shape (..., n), with its velocities at 0."""
        return observation * self._shown
