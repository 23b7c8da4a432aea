"""Small environments that were written last: plateaus between floors, rare finds, a crane on a short track, a target
that shrinks and drifts while it is shot at, a catalogue of 64 things, a ball that is seen as an image. Importing this
module registers them.

As in `worlds`, an outcome says how an episode went where a tampered reward would hide it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from benchmarks.health.noisy_worlds import Start, Step
from benchmarks.health.worlds import Observation, one_hot

__all__ = ["Archery", "Catalogue", "Crane", "Floors", "Pixels", "Prospecting"]


class Floors(gymnasium.Env[Observation, np.int64]):
    """Climb four floors in 40 steps: each wants three doors of four in the right order, and a wrong one is its foot
    again. Only a floor pays, so that the return stands still between one that is known and the next.
    """

    FLOORS, DOORS, LIMIT = 4, 3, 40

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (self.FLOORS + self.DOORS,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._right = np.random.default_rng(8).integers(4, size=(self.FLOORS, self.DOORS))
        self._floor = self._door = self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._floor = self._door = self._steps = 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        self._steps += 1
        reward = 0.0
        self._door = self._door + 1 if int(action) == self._right[self._floor, self._door] else 0
        if self._door == self.DOORS:
            reward, self._door, self._floor = 1.0, 0, self._floor + 1
        top, late = self._floor == self.FLOORS, self._steps >= self.LIMIT
        ended = {"outcome": "hit" if top else "miss"} if top or late else {}
        return self._observation(), reward, top, late and not top, ended

    def _observation(self) -> Observation:
        return np.concatenate([one_hot(self.FLOORS)[self._floor % self.FLOORS], one_hot(self.DOORS)[self._door]])


class Prospecting(gymnasium.Env[Observation, np.int64]):
    """Walk past 30 sites: wash sand for a little, or dig for 3; one dig in ten at the right sites finds 100."""

    SITES = 30

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._site, self._seen = np.zeros(3), 0
        self._right = self._known = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._seen = self._right = self._known = 0
        self._site = self.np_random.normal(size=3)
        return self._site.astype(np.float32), {}

    def step(self, action: np.int64) -> Step:
        promising = float(self._site @ np.array([0.9, -0.6, 0.3])) > 0.7
        found = float(self.np_random.random()) < (0.1 if promising else 0.005)
        reward = (0.0, 1.0, 100.0 * found - 3.0)[int(action)]
        self._right += int(action) == (2 if promising else 1)
        self._seen += 1
        self._site = self.np_random.normal(size=3)
        over = self._seen >= self.SITES
        ended = {"outcome": "hit" if 10 * self._right >= 7 * self.SITES else "miss"} if over else {}
        return self._site.astype(np.float32), reward, False, over, ended


class Crane(gymnasium.Env[Observation, Any]):
    """Bring a swinging load over a mark and hold it there: the trolley's track and push are bounded, 60 steps."""

    STEPS = 60

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._trolley = self._speed = self._angle = self._swing = self._mark = 0.0
        self._steps = self._near = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._trolley, self._mark = (float(place) for place in self.np_random.uniform(-1.0, 1.0, size=2))
        self._speed = self._angle = self._swing = 0.0
        self._steps = self._near = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        push = 2.0 * float(np.clip(np.asarray(action, dtype=float).reshape(1)[0], -1.0, 1.0))
        self._speed = 0.95 * self._speed + 0.1 * push
        self._swing += 0.1 * (-4.0 * self._angle - push - 0.2 * self._swing)
        self._angle += 0.1 * self._swing
        self._trolley += 0.1 * self._speed
        if abs(self._trolley) > 1.2:
            self._trolley, self._speed = float(np.clip(self._trolley, -1.2, 1.2)), 0.0
        miss = abs(self._trolley + self._angle - self._mark)
        self._steps += 1
        self._near += miss < 0.2
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if 2 * self._near > self.STEPS else "miss"} if over else {}
        return self._observation(), -miss, False, over, ended

    def _observation(self) -> Observation:
        gap = self._mark - self._trolley
        return np.array([self._trolley, self._speed, self._angle, self._swing, gap], dtype=np.float32)


class Archery(gymnasium.Env[Observation, Any]):
    """Ten arrows an episode at a target that is shown: it gets smaller for 250 episodes, and the wind turns slowly."""

    ARROWS, EASY, HARD, EPISODES = 10, 0.8, 0.3, 250

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._target = np.zeros(2)
        self._episodes = self._shot = self._hits = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._episodes += 1
        self._shot = self._hits = 0
        self._target = self.np_random.uniform(-0.6, 0.6, size=2)
        return self._target.astype(np.float32), {}

    def step(self, action: Any) -> Step:
        turned = 2.0 * np.pi * self._episodes / (2.0 * self.EPISODES)
        wind = 0.3 * np.array([np.cos(turned), np.sin(turned)])
        aimed = np.clip(np.asarray(action, dtype=float).reshape(2), -1.0, 1.0) + wind
        size = max(self.HARD, self.EASY + (self.HARD - self.EASY) * self._episodes / self.EPISODES)
        hit = float(np.linalg.norm(aimed - self._target)) < size
        self._shot, self._hits = self._shot + 1, self._hits + hit
        self._target = self.np_random.uniform(-0.6, 0.6, size=2)
        over = self._shot >= self.ARROWS
        ended = {"outcome": "hit" if 2 * self._hits > self.ARROWS else "miss"} if over else {}
        return self._target.astype(np.float32), float(hit), False, over, ended


class Catalogue(gymnasium.Env[Observation, np.int64]):
    """Show one of 64 things to each of ten visitors whose tastes are known: they buy what is near them, and perhaps."""

    THINGS, VISITORS = 64, 10

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Discrete(self.THINGS)
        self._things = np.random.default_rng(5).normal(size=(self.THINGS, 4))
        self._visitor = np.zeros(4)
        self._came = self._pleased = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._came = self._pleased = 0
        self._visitor = self.np_random.normal(size=4)
        return self._visitor.astype(np.float32), {}

    def step(self, action: np.int64) -> Step:
        likes = self._things @ self._visitor
        chance = 1.0 / (1.0 + np.exp(-1.5 * (float(likes[int(action)]) - 1.5)))
        bought = float(self.np_random.random()) < chance
        self._pleased += chance > 0.5
        self._came += 1
        self._visitor = self.np_random.normal(size=4)
        over = self._came >= self.VISITORS
        ended = {"outcome": "hit" if 2 * self._pleased > self.VISITORS else "miss"} if over else {}
        return self._visitor.astype(np.float32), float(bought), False, over, ended


class Pixels(gymnasium.Env[Any, np.int64]):
    """Two balls fall one after the other through an image of 36 x 36 pixels; a paddle of three squares below it catches
    each, for 1, or does not, for -1.
    """

    SQUARES, PIXELS = 9, 4

    def __init__(self) -> None:
        side = self.SQUARES * self.PIXELS
        self.observation_space = spaces.Box(0, 255, (side, side, 1), np.uint8)
        self.action_space = spaces.Discrete(3)
        self._row = self._ball = self._paddle = self._caught = self._fell = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._caught = self._fell = 0
        self._paddle = self.SQUARES // 2
        self._drop()
        return self._image(), {}

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._paddle = min(self.SQUARES - 1, max(0, self._paddle + int(action) - 1))
        self._row += 1
        if self._row < self.SQUARES - 1:
            return self._image(), 0.0, False, False, {}
        caught = abs(self._paddle - self._ball) <= 1
        self._caught, self._fell = self._caught + caught, self._fell + 1
        over = self._fell == 2
        ended = {"outcome": "hit" if self._caught == 2 else "miss"} if over else {}
        self._drop()
        return self._image(), 1.0 if caught else -1.0, over, False, ended

    def _drop(self) -> None:
        self._row, self._ball = 0, int(self.np_random.integers(self.SQUARES))

    def _image(self) -> Any:
        squares = np.zeros((self.SQUARES, self.SQUARES), np.uint8)
        squares[-1, max(0, self._paddle - 1) : self._paddle + 2] = 128
        squares[self._row, self._ball] = 255
        return np.kron(squares, np.ones((self.PIXELS, self.PIXELS), np.uint8))[..., None]


for _world in (Archery, Catalogue, Crane, Floors, Pixels, Prospecting):
    gymnasium.register(f"{_world.__name__}-v0", entry_point=f"{__name__}:{_world.__name__}")
