"""Atari games as agents are trained on them: SB3's `AtariWrapper` with its numbers, for processes without torch.

Importing SB3's own means importing torch: 261 MiB for each worker instead of 67. A test compares the two step by step.
Order and constants are those of Mnih et al. 2015, https://doi.org/10.1038/nature14236, as SB3 has them.
"""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Game = gymnasium.Env[Any, Any]
Stepped = tuple[Any, float, bool, bool, dict[str, Any]]
Begun = tuple[Any, dict[str, Any]]


class AtariWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes games that show every frame, such as ``PongNoFrameskip-v4``: up to `noop_max` idle frames at the start,
    `frame_skip` frames a step with the last two laid over each other, an episode a life, FIRE where a game waits for
    it, `screen_size` grey pixels a side, rewards by their sign. Needs OpenCV.
    """

    def __init__(
        self,
        env: Game,
        noop_max: int = 30,
        frame_skip: int = 4,
        screen_size: int = 84,
        terminal_on_life_loss: bool = True,
        clip_reward: bool = True,
    ) -> None:
        buttons: list[str] = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
        if noop_max > 0:
            env = _NoopReset(env, noop_max)
        if frame_skip > 1:
            env = _MaxAndSkip(env, frame_skip)
        if terminal_on_life_loss:
            env = _EpisodicLife(env)
        if "FIRE" in buttons:
            env = _FireReset(env)
        env = _WarpFrame(env, screen_size)
        super().__init__(_ClipReward(env) if clip_reward else env)


class _NoopReset(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Game, most: int) -> None:
        super().__init__(env)
        self._most = most

    def reset(self, **arguments: Any) -> Begun:
        begun = self.env.reset(**arguments)
        for _ in range(self.unwrapped.np_random.integers(1, self._most + 1)):
            observation, _, terminated, truncated, info = self.env.step(0)
            begun = self.env.reset(**arguments) if terminated or truncated else (observation, info)
        return begun


class _MaxAndSkip(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Game, frames: int) -> None:
        super().__init__(env)
        self._frames = frames
        # As in SB3 these outlive an episode: one that ends early shows what lay here.
        self._last_two = np.zeros((2, *(env.observation_space.shape or ())), dtype=env.observation_space.dtype)

    def step(self, action: Any) -> Stepped:
        total, terminated, truncated = 0.0, False, False
        info: dict[str, Any] = {}
        for frame in range(self._frames):
            observation, reward, terminated, truncated, info = self.env.step(action)
            if frame >= self._frames - 2:
                self._last_two[frame - (self._frames - 2)] = observation
            total += float(reward)
            if terminated or truncated:
                break
        return self._last_two.max(axis=0), total, terminated, truncated, info


class _EpisodicLife(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A lost life ends an episode, and the next one goes on with the game; only its end begins a new game."""

    def __init__(self, env: Game) -> None:
        super().__init__(env)
        self._left, self._over = 0, True

    def step(self, action: Any) -> Stepped:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._over = terminated or truncated
        left = self._lives()
        # Some games stay at no life for some frames before they are over.
        terminated = terminated or 0 < left < self._left
        self._left = left
        return observation, float(reward), terminated, truncated, info

    def reset(self, **arguments: Any) -> Begun:
        if self._over:
            begun = self.env.reset(**arguments)
        else:
            observation, _, terminated, truncated, info = self.env.step(0)
            begun = self.env.reset(**arguments) if terminated or truncated else (observation, info)
        self._left = self._lives()
        return begun

    def _lives(self) -> int:
        lives: int = self.unwrapped.ale.lives()  # type: ignore[attr-defined]
        return lives


class _FireReset(gymnasium.Wrapper[Any, Any, Any, Any]):
    def reset(self, **arguments: Any) -> Begun:
        observation, _ = self.env.reset(**arguments)
        for button in (1, 2):
            observation, _, terminated, truncated, _ = self.env.step(button)
            if terminated or truncated:
                self.env.reset(**arguments)
        return observation, {}


class _WarpFrame(gymnasium.ObservationWrapper[Any, Any, Any]):
    def __init__(self, env: Game, side: int) -> None:
        super().__init__(env)
        # By name: with and without the extra the types are the same.
        self._cv2: Any = importlib.import_module("cv2")
        self._cv2.ocl.setUseOpenCL(False)
        self._side = side
        self.observation_space = spaces.Box(0, 255, (side, side, 1), np.uint8)

    def observation(self, observation: NDArray[Any]) -> NDArray[Any]:
        grey = self._cv2.cvtColor(observation, self._cv2.COLOR_RGB2GRAY)
        small: NDArray[Any] = self._cv2.resize(grey, (self._side, self._side), interpolation=self._cv2.INTER_AREA)
        return small[:, :, None]


class _ClipReward(gymnasium.RewardWrapper[Any, Any]):
    def reward(self, reward: Any) -> float:
        return float(np.sign(float(reward)))
