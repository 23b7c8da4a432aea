"""Environments whose step is ten milliseconds of work, or none, for benchmarks; importing this registers them."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np

STEP_S = 0.01


class Slow(gymnasium.Env[Any, Any]):
    """Works, and does nothing else."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(4, dtype=np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        begun = time.thread_time()
        while time.thread_time() - begun < STEP_S:
            pass
        return np.zeros(4, dtype=np.float32), 0.0, False, False, {}


class Still(gymnasium.Env[Any, Any]):
    """Does nothing: what a step of it costs is what the way to it costs."""

    observation_space = Slow.observation_space
    action_space = Slow.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(4, dtype=np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(4, dtype=np.float32), 0.0, False, False, {}


gymnasium.register(id="Slow-v0", entry_point=f"{__name__}:Slow")
gymnasium.register(id="Still-v0", entry_point=f"{__name__}:Still")
