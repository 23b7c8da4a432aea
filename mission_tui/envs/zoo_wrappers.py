"""Wrappers that the RL zoo's settings ask for, so that they need no package of the zoo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat

import gymnasium
from gymnasium.wrappers import ResizeObservation


class FrameSkip(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Each step takes its action up to `skip` times, adds up the rewards, and shows the last frame."""

    def __init__(self, env: gymnasium.Env[Any, Any], skip: int = 4) -> None:
        super().__init__(env)
        self._skip = skip

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """The last observation and info, and the sum of the rewards; it ends with the episode."""
        total = 0.0
        for _ in range(self._skip):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info


class Resized(ResizeObservation):
    """Gymnasium's, whose `shape` may also be the list that a preset has in place of a tuple. Needs OpenCV."""

    def __init__(self, env: gymnasium.Env[Any, Any], shape: Sequence[int]) -> None:
        super().__init__(env, tuple(shape))  # type: ignore[arg-type]
