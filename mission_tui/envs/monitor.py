"""Episode statistics as SB3's `Monitor` gives them, for processes that must not import SB3 and torch with it."""

from __future__ import annotations

import time
from typing import Any

import gymnasium

__all__ = ["Monitor"]


class Monitor(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Puts ``episode: {r, l, t}`` into the last info of an episode, rounded and summed as SB3 does.

    Its attributes are named as SB3's, so that a saved state fits either. The histories stay empty: SB3's grow for ever.
    """

    stands_for = "stable_baselines3.common.monitor.Monitor"

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.t_start = time.time()
        self.rewards: list[float] = []
        self.needs_reset = True
        self.episode_returns: list[float] = []
        self.episode_lengths: list[int] = []
        self.episode_times: list[float] = []
        self.total_steps = 0
        self.current_reset_info: dict[str, Any] = {}

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; an unfinished one is forgotten."""
        self.rewards = []
        self.needs_reset = False
        return self.env.reset(**arguments)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and count. Raises `RuntimeError` after the end of an episode, as SB3's does."""
        if self.needs_reset:
            raise RuntimeError("Tried to step environment that needs reset")
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.rewards.append(float(reward))
        if terminated or truncated:
            self.needs_reset = True
            info["episode"] = {
                "r": round(sum(self.rewards), 6),
                "l": len(self.rewards),
                "t": round(time.time() - self.t_start, 6),
            }
        self.total_steps += 1
        return observation, reward, terminated, truncated, info
