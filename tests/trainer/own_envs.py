"""What a user brings along for environments: a wrapper, one that talks, and a film; importing this registers them.

No torch here, because env workers import it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Scaled(gymnasium.RewardWrapper[Any, Any]):
    """Rewards times `by`, plus `plus`."""

    def __init__(self, env: gymnasium.Env[Any, Any], by: float, plus: float = 0.0) -> None:
        super().__init__(env)
        self.by, self.plus = by, plus

    def reward(self, reward: Any) -> float:
        return self.by * float(reward) + self.plus


class Talking(gymnasium.Env[Any, Any]):
    """Seven steps, each with an info; the second half of the lanes is cut by time."""

    observation_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (3,))
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def __init__(self) -> None:
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        over = self.steps == 7
        info = {"at": self.steps} | ({"is_success": True} if over else {})
        return self._observe(), float(action), False, over, info

    def _observe(self) -> NDArray[np.float32]:
        return self.np_random.uniform(-1.0, 1.0, 3).astype(np.float32)


class Film(Talking):
    """A small film of 36 x 40 pictures, channels last, whose brightness is drawn."""

    observation_space: spaces.Space[Any] = spaces.Box(0, 255, (36, 40, 1), np.uint8)

    def _observe(self) -> NDArray[Any]:
        return self.np_random.integers(0, 256, (36, 40, 1), dtype=np.uint8)


for talking in (Talking, Film):
    gymnasium.register(id=f"{talking.__name__}-v0", entry_point=f"{__name__}:{talking.__name__}")
