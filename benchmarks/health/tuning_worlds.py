"""Small environments that rules are tuned on, each of another structure: one environment whose episodes are shorter
than its rollouts, episodes that end apart, a past that has to be kept, dense costs, one goal that is far away, and
rewards that grow tenfold with each thing that is learned. Importing this module registers them.

As in `worlds`, an outcome or the length says how an episode went where a tampered reward would hide it.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from benchmarks.health.noisy_worlds import Start, Step
from benchmarks.health.worlds import Observation

__all__ = ["Balancing", "Climbing", "Herding", "Listening", "Searching", "Steering"]


class Balancing(gymnasium.Env[Observation, np.int64]):
    """Keep a ball on a beam that shakes: a step pays by how near to the middle it is; it ends where the ball falls."""

    STEPS = 150

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._place = self._speed = self._shake = 0.0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._place, self._speed = (float(it) for it in self.np_random.uniform(-0.3, 0.3, 2))
        self._shake, self._steps = 0.0, 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        self._shake = 0.8 * self._shake + 0.03 * float(self.np_random.normal())
        self._speed += 0.08 * (int(action) - 1) + 0.05 * self._place + self._shake
        self._place += 0.3 * self._speed
        self._steps += 1
        fell, over = abs(self._place) > 1.0, self._steps >= self.STEPS
        return self._observation(), max(0.0, 1.0 - abs(self._place)), fell, over and not fell, {}

    def _observation(self) -> Observation:
        return np.array([self._place, self._speed, self._shake], dtype=np.float32)


class Herding(gymnasium.Env[Observation, np.int64]):
    """Choose among four pastures by weather and hunger. The rich one pays a little now and one day in eight a herd; a
    year may end after any day.
    """

    END, LOSS = 1.0 / 25.0, -6.0

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (6,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._weather, self._hunger, self._days, self._well = 0, 0.0, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._weather, self._hunger = int(self.np_random.integers(3)), float(self.np_random.uniform(0.0, 1.0))
        self._days = self._well = 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        chance = self.np_random.random(4)
        if int(action) == 3:
            lost = chance[0] < 0.125
            reward, fed = (self.LOSS if lost else 0.5), 0.4
        else:
            right = int(action) == (self._weather + (self._hunger > 0.5)) % 3
            reward, fed = (0.3 if right else -0.2), (0.3 if right else -0.2)
            self._well += right
        self._hunger = min(1.0, max(0.0, self._hunger + 0.3 * (float(chance[1]) - 0.3) - 0.5 * fed))
        self._weather = int(3 * chance[2])
        self._days += 1
        over = bool(chance[3] < self.END)
        ended = {"outcome": "hit" if self._well >= 0.7 * self._days else "miss"} if over else {}
        return self._observation(), reward - 0.1 * self._hunger, over, False, ended

    def _observation(self) -> Observation:
        seen = np.zeros(6, dtype=np.float32)
        seen[self._weather], seen[3], seen[4] = 1.0, self._hunger, 1.0 - self._hunger
        seen[5] = min(1.0, self._days / 50.0)
        return seen


class Listening(gymnasium.Env[Observation, np.int64]):
    """Follow a voice that circles at a speed of its own and is heard in one step of three; 30 to 50 steps."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (5,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._voice = self._speed = self._own = 0.0
        self._steps = self._last = self._near = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._voice, self._own = (float(it) for it in self.np_random.uniform(-math.pi, math.pi, 2))
        self._speed = float(self.np_random.uniform(-0.2, 0.2))
        self._last, self._steps, self._near = int(self.np_random.integers(30, 51)), 0, 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        self._own += 0.35 * (int(action) - 1)
        self._voice += self._speed + 0.03 * float(self.np_random.normal())
        self._steps += 1
        reward = math.cos(self._own - self._voice)
        self._near += reward > 0.8
        over = self._steps >= self._last
        ended = {"outcome": "hit" if 2 * self._near > self._steps else "miss"} if over else {}
        return self._observation(), reward, False, over, ended

    def _observation(self) -> Observation:
        away, heard = self._voice - self._own, self._steps % 3 == 0
        bearing = [math.sin(away), math.cos(away), 1.0] if heard else [0.0, 0.0, 0.0]
        return np.array([*bearing, math.sin(self._own), math.cos(self._own)], dtype=np.float32)


class Steering(gymnasium.Env[Observation, Any]):
    """Bring a boat with two thrusters to its berth: each step costs the distance, and arriving ends it; 60 steps."""

    STEPS = 60

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._place, self._speed = np.zeros(2), np.zeros(2)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        angle = float(self.np_random.uniform(-math.pi, math.pi))
        self._place = 2.0 * np.array([math.cos(angle), math.sin(angle)])
        self._speed, self._steps = np.zeros(2), 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        thrust = np.clip(np.asarray(action, dtype=float).reshape(2), -1.0, 1.0)
        self._speed = 0.8 * self._speed + 0.05 * thrust + 0.02 * self.np_random.normal(size=2)
        self._place = np.clip(self._place + self._speed, -4.0, 4.0)
        self._steps += 1
        distance = float(np.hypot(*self._place))
        there, over = distance < 0.4, self._steps >= self.STEPS
        ended = {"outcome": "hit" if there else "miss"} if there or over else {}
        return self._observation(), -distance, there, over and not there, ended

    def _observation(self) -> Observation:
        return np.array([*self._place, *(5.0 * self._speed)], dtype=np.float32)


class Searching(gymnasium.Env[Observation, np.int64]):
    """Walk through 8 x 8 fields to the corner that is shown: one reward there, nothing before; 60 steps."""

    SIZE, STEPS = 8, 60

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (6,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._x = self._y = self._corner = self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._x, self._y = (int(it) for it in self.np_random.integers(2, self.SIZE - 2, 2))
        self._corner, self._steps = int(self.np_random.integers(4)), 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        across, up = ((1, 0), (-1, 0), (0, 1), (0, -1))[int(action)]
        if float(self.np_random.random()) < 0.1:
            across, up = up, across
        self._x = min(self.SIZE - 1, max(0, self._x + across))
        self._y = min(self.SIZE - 1, max(0, self._y + up))
        self._steps += 1
        far = self.SIZE - 1
        there = (self._x, self._y) == (far * (self._corner % 2), far * (self._corner // 2))
        return self._observation(), float(there), there, self._steps >= self.STEPS and not there, {}

    def _observation(self) -> Observation:
        seen = np.zeros(6, dtype=np.float32)
        seen[0], seen[1] = 2.0 * self._x / (self.SIZE - 1) - 1.0, 2.0 * self._y / (self.SIZE - 1) - 1.0
        seen[2 + self._corner] = 1.0
        return seen


class Climbing(gymnasium.Env[Observation, np.int64]):
    """A stair of levels, each with a code of its own of five actions: every level that is reached pays five times as
    much a step as the one below, and a wrong action leads down; 40 steps.
    """

    STEPS, LEVELS = 40, 6

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (self.LEVELS + 4,), np.float32)
        self.action_space = spaces.Discrete(5)
        self._codes = np.random.default_rng(9).integers(5, size=(self.LEVELS, 4))
        self._level = self._sign = self._steps = self._best = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._level = self._steps = self._best = 0
        self._sign = int(self.np_random.integers(4))
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        if int(action) == int(self._codes[self._level, self._sign]):
            self._level = min(self.LEVELS - 1, self._level + (float(self.np_random.random()) < 0.5))
        else:
            self._level = max(0, self._level - 1)
        self._best = max(self._best, self._level)
        self._sign, self._steps = int(self.np_random.integers(4)), self._steps + 1
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._level >= 4 else "miss"} if over else {}
        return self._observation(), 0.01 * 5.0**self._level, False, over, ended

    def _observation(self) -> Observation:
        seen = np.zeros(self.LEVELS + 4, dtype=np.float32)
        seen[self._level] = seen[self.LEVELS + self._sign] = 1.0
        return seen


for _world in (Balancing, Climbing, Herding, Listening, Searching, Steering):
    gymnasium.register(f"{_world.__name__}-v0", entry_point=f"{__name__}:{_world.__name__}")
