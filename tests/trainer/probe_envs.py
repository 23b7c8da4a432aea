"""Environments that misbehave on purpose or have unusual spaces; importing this registers them."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LENGTH = 10


class Walk(gymnasium.Env[Any, Any]):
    """Ten steps of an array observation; each reward is 1."""

    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def __init__(self) -> None:
        self.observation_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (3,))
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        over = self.steps == LENGTH
        info = {"outcome": "arrived", "is_success": True} if over else {}
        return self._observe(), 1.0, over, False, info

    def _observe(self) -> Any:
        return self.np_random.uniform(-1.0, 1.0, 3).astype(np.float32)


class MultiWalk(Walk):
    """Three heads, one of them without a choice."""

    action_space = spaces.MultiDiscrete([2, 5, 1])


class BinaryWalk(Walk):
    """Two switches."""

    action_space = spaces.MultiBinary(2)


class DictWalk(Walk):
    """A dictionary observation."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict({"a": spaces.Box(-1.0, 1.0, (3,)), "b": spaces.Box(-1.0, 1.0, (2,))})

    def _observe(self) -> Any:
        values = super()._observe()
        return {"a": values, "b": values[:2]}


class ImageWalk(Walk):
    """A small image, channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (36, 36, 1), dtype=np.uint8)

    def _observe(self) -> Any:
        return self.np_random.integers(0, 256, (36, 36, 1), dtype=np.uint8)


class UnboundedWalk(Walk):
    """Actions without bounds."""

    action_space = spaces.Box(-np.inf, np.inf, (1,))


class Spoilt(Walk):
    """After `at` steps over all episodes the reward becomes `value`, the observation nan, or `step` raises."""

    def __init__(self, what: str = "reward", at: int = 40, value: str = "nan", sound_seed: int | None = None) -> None:
        super().__init__()
        self.what, self.at, self.value, self.total = what, at, float(value), 0
        self.sound_seed = sound_seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None and seed == self.sound_seed:
            self.at = 10**9
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        self.total += 1
        if self.total < self.at:
            return observation, reward, terminated, truncated, info
        match self.what:
            case "reward":
                reward = self.value
            case "observation":
                observation = np.full_like(observation, np.nan)
            case "raise":
                raise ValueError("the bridge is out")
            case "exit":
                raise SystemExit(3)
        return observation, reward, terminated, truncated, info


class Unmakeable(Walk):
    """Cannot be constructed."""

    def __init__(self) -> None:
        raise OSError("no licence")


class Unclosable(Walk):
    """Raises when it is closed."""

    def close(self) -> None:
        raise ValueError("still busy")


class Clinging(Walk):
    """Never closes once it was used."""

    def close(self) -> None:
        while self.steps:
            time.sleep(60)


class Dying(Walk):
    """Kills its own process at the fourth step."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.steps == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Doubled(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper that doubles rewards."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, 2.0 * float(reward), terminated, truncated, info


PROBED = (Walk, MultiWalk, BinaryWalk, DictWalk, ImageWalk, UnboundedWalk, Spoilt)
for probe in (*PROBED, Unmakeable, Unclosable, Clinging, Dying):
    gymnasium.register(id=f"{probe.__name__}-v0", entry_point=f"{__name__}:{probe.__name__}")
gymnasium.register(
    id="ShortPendulum-v0",
    entry_point="gymnasium.envs.classic_control.pendulum:PendulumEnv",
    max_episode_steps=20,
)
