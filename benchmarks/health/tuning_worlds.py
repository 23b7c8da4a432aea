"""Small environments that rules are tuned on, each of another structure: one environment whose episodes are shorter
than its rollouts, episodes that end apart, a past that has to be kept, dense costs, one goal that is far away, and
rewards that grow tenfold with each thing that is learned; long episodes whose returns rise on to the end of the budget,
two arms, cards, and two in which a policy settles early on next to nothing. Importing this module registers them.

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

__all__ = [
    "Angling",
    "Balancing",
    "Climbing",
    "Diving",
    "Herding",
    "Kneading",
    "Listening",
    "Melding",
    "Ploughing",
    "Searching",
    "Steering",
    "Stoking",
]


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


class Ploughing(gymnasium.Env[Observation, Any]):
    """Set depth, tilt and speed of a plough for soil that changes from step to step: a step pays by how near all three
    are to what is right; 150 to 250 steps. An episode is a hit by the share of its steps that were good.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self._weights = np.random.default_rng(3).normal(size=(3, 4))
        self._soil = np.zeros(4)
        self._steps = self._last = self._good = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._soil = self.np_random.normal(size=4)
        self._last, self._steps, self._good = int(self.np_random.integers(150, 251)), 0, 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        right = np.tanh(self._weights @ self._soil)
        away = float(np.sum((np.clip(np.asarray(action, dtype=float).reshape(3), -1.0, 1.0) - right) ** 2))
        self._soil = 0.85 * self._soil + 0.53 * self.np_random.normal(size=4)
        self._steps += 1
        reward = 2.0 * math.exp(-away) - 0.3
        self._good += reward > 0.5
        return self._observation(), reward, False, *_over(self)

    def _observation(self) -> Observation:
        return self._soil.astype(np.float32)


class Stoking(gymnasium.Env[Observation, np.int64]):
    """Keep a kettle at a temperature that is wanted, by four strengths of the fire, while the wind cools it: a step
    pays up to one by how near it is, and boiling over costs half; 80 to 120 steps. A hit is drawn as in `Ploughing`.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._heat = self._wanted = self._fire = self._wind = 0.0
        self._steps = self._last = self._good = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._heat, self._wanted = (float(it) for it in self.np_random.uniform(-0.3, 1.2, 2))
        self._wanted = min(1.0, max(0.0, self._wanted))
        self._fire, self._wind = 0.0, 0.0
        self._last, self._steps, self._good = int(self.np_random.integers(80, 121)), 0, 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        self._wind = 0.9 * self._wind + 0.005 * float(self.np_random.normal())
        self._fire = 0.6 * self._fire + 0.4 * (int(action) - 1.0)
        self._heat += 0.05 * self._fire - 0.03 * self._heat + self._wind
        self._wanted = min(1.0, max(0.0, self._wanted + 0.02 * float(self.np_random.normal())))
        self._steps += 1
        near = max(0.0, 1.0 - 2.0 * abs(self._heat - self._wanted))
        over = self._heat > 1.3
        self._heat = min(1.5, max(-0.5, self._heat))
        self._good += near > 0.6
        return self._observation(), near - (0.5 if over else 0.05), False, *_over(self)

    def _observation(self) -> Observation:
        return np.array([self._heat, self._wanted, self._fire, 20.0 * self._wind], dtype=np.float32)


def _over(world: Ploughing | Stoking) -> tuple[bool, dict[str, Any]]:
    """Whether it is, and an outcome that is the likelier a hit the more of its steps were good."""
    over = world._steps >= world._last
    hit = over and world._good > float(world.np_random.random()) * world._steps
    return over, {"outcome": "hit" if hit else "miss"} if over else {}


class Kneading(gymnasium.Env[Observation, Any]):
    """Two arms that turn and stretch: each has a place of its own to press, and both have to be there together for
    three steps; every step costs the distances, 50 at most.
    """

    STEPS, HELD = 50, 3

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (10,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self._angles, self._reach, self._places = np.zeros(2), np.ones(2), np.zeros((2, 2))
        self._steps = self._held = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._angles, self._reach = self.np_random.uniform(-1.0, 1.0, 2), self.np_random.uniform(0.5, 1.5, 2)
        angle, reach = self.np_random.uniform(-1.5, 1.5, 2), self.np_random.uniform(0.6, 1.6, 2)
        self._places = np.stack([reach * np.cos(angle), reach * np.sin(angle)], axis=1)
        self._steps = self._held = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        moved = np.clip(np.asarray(action, dtype=float).reshape(4), -1.0, 1.0)
        self._angles = np.clip(self._angles + 0.2 * moved[:2] + 0.02 * self.np_random.normal(size=2), -2.0, 2.0)
        self._reach = np.clip(self._reach + 0.15 * moved[2:], 0.3, 2.0)
        distances = np.hypot(*self._offsets().T)
        self._held = self._held + 1 if bool(np.all(distances < 0.3)) else 0
        self._steps += 1
        there, over = self._held >= self.HELD, self._steps >= self.STEPS
        ended = {"outcome": "hit" if there else "miss"} if there or over else {}
        return self._observation(), -float(distances.sum()), there, over and not there, ended

    def _offsets(self) -> Any:
        tips = np.stack([self._reach * np.cos(self._angles), self._reach * np.sin(self._angles)], axis=1)
        return self._places - tips

    def _observation(self) -> Observation:
        return np.concatenate([self._angles, self._reach, self._offsets().ravel(), [self._held, 1.0]]).astype(
            np.float32
        )


class Melding(gymnasium.Env[Observation, np.int64]):
    """Get rid of six cards of six kinds: two kinds are allowed at a time, what is not allowed or not held costs one. A
    card pays a little, drawing one costs half; an empty hand pays five and ends it, 40 moves at most.
    """

    KINDS, STEPS = 6, 40

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, np.inf, (2 * self.KINDS,), np.float32)
        self.action_space = spaces.Discrete(self.KINDS + 1)
        self._hand = np.zeros(self.KINDS, dtype=int)
        self._top = self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._hand = np.bincount(self.np_random.integers(self.KINDS, size=6), minlength=self.KINDS)
        self._top, self._steps = int(self.np_random.integers(self.KINDS)), 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        kind, chance = int(action), self.np_random.integers(self.KINDS, size=2)
        reward = -1.0
        if kind == self.KINDS:
            self._hand[chance[0]] += 1
            self._top, reward = int(chance[1]), -0.5
        elif self._hand[kind] and kind in (self._top, (self._top + 1) % self.KINDS):
            self._hand[kind] -= 1
            self._top, reward = (kind + int(chance[1]) % 3) % self.KINDS, 0.3
        self._steps += 1
        empty, over = not self._hand.any(), self._steps >= self.STEPS
        ended = {"outcome": "hit" if empty else "miss"} if empty or over else {}
        return self._observation(), reward + (5.0 if empty else 0.0), empty, over and not empty, ended

    def _observation(self) -> Observation:
        return np.concatenate([self._hand / 3.0, np.arange(self.KINDS) == self._top]).astype(np.float32)


class Angling(gymnasium.Env[Observation, np.int64]):
    """Fish at the shore, where one cast in four catches something, or row out for nine steps that cost a little, to
    where four in five do; 40 steps. A policy that learns in large steps stays at the shore for ever.
    """

    SEA, STEPS = 9, 40

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (self.SEA + 1,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._place = self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._place = self._steps = 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        chance, reward = float(self.np_random.random()), -0.15
        if int(action) == 0:
            reward = float(chance < {0: 0.25, self.SEA: 0.8}.get(self._place, 0.0))
        else:
            self._place = min(self.SEA, max(0, self._place + (1 if int(action) == 1 else -1)))
        self._steps += 1
        return self._observation(), reward, False, self._steps >= self.STEPS, {}

    def _observation(self) -> Observation:
        seen = np.zeros(self.SEA + 1, dtype=np.float32)
        seen[self._place] = 1.0
        return seen


class Diving(gymnasium.Env[Observation, Any]):
    """Dive against what drives one up, at a cost of each effort, to a pearl that chance seldom finds; 50 to 70 steps. A
    policy that is paid for nothing else learns to lie still, in waves that are worth a little or cost it.
    """

    DEEP = 4.0

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._depth = self._speed = 0.0
        self._steps = self._last = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._depth = self._speed = 0.0
        self._last, self._steps = int(self.np_random.integers(50, 71)), 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        effort = float(np.clip(np.asarray(action, dtype=float).reshape(1), -1.0, 1.0)[0])
        self._speed = 0.9 * self._speed + 0.1 * effort - 0.03 * self._depth + 0.02 * float(self.np_random.normal())
        self._depth = max(0.0, self._depth + self._speed)
        self._steps += 1
        found, over = self._depth >= self.DEEP, self._steps >= self._last
        waves = 0.05 * float(self.np_random.normal())
        return self._observation(), (20.0 if found else 0.0) - 0.1 * effort**2 + waves, found, over and not found, {}

    def _observation(self) -> Observation:
        return np.array([self._depth, 5.0 * self._speed], dtype=np.float32)


for _world in (
    Balancing,
    Stoking,
    Climbing,
    Diving,
    Angling,
    Herding,
    Kneading,
    Listening,
    Melding,
    Ploughing,
    Searching,
    Steering,
):
    gymnasium.register(f"{_world.__name__}-v0", entry_point=f"{__name__}:{_world.__name__}")
