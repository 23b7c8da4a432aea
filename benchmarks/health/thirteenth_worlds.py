"""Small environments of the thirteenth set, of kinds that the others lack: a brew whose yeast grows over a hundred
steps while its heat changes at once, lights of three crossings, three factors whose product alone pays, a prey that
learns from which side it is hunted, a well that seldom blows out, boats that share one stock of fish and half of what
they catch. Importing this module registers them.

As in `worlds`, an outcome says how an episode went where a tampered reward would hide it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from benchmarks.health.noisy_worlds import Start, Step
from benchmarks.health.worlds import Observation

__all__ = ["Blending", "Brewing", "Crossing", "Drilling", "Fishing", "Hunting"]


class Brewing(gymnasium.Env[Observation, Any]):
    """Heat a mash and feed its yeast for 160 steps: heat follows within a step or two, and what it is beside the wanted
    one costs at once; yeast takes fifty steps to grow, and what has grown is drawn off every forty steps and pays.
    """

    STEPS, DRAWN, GOOD = 160, 40, 4.5

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (6,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._heat = self._draught = self._wanted = self._sugar = self._yeast = self._beer = 0.0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._heat, self._draught = float(self.np_random.uniform(-0.5, 0.5)), 0.0
        self._wanted = float(self.np_random.uniform(-0.5, 0.5))
        self._sugar, self._yeast, self._beer = 0.5, 0.2, 0.0
        self._steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        fire, feed = np.clip(np.asarray(action, dtype=float).reshape(2), -1.0, 1.0)
        self._draught = 0.8 * self._draught + 0.05 * float(self.np_random.normal())
        self._heat += 0.3 * float(fire) + self._draught - 0.1 * self._heat
        if self.np_random.random() < 0.05:
            self._wanted = float(self.np_random.uniform(-0.5, 0.5))
        self._sugar += 0.03 * (float(feed) + 1.0) - 0.06 * self._yeast
        self._sugar = min(max(self._sugar, 0.0), 2.0)
        # Yeast thrives on little sugar and starves without any.
        self._yeast *= 1.0 + 0.04 * (1.0 - ((self._sugar - 0.5) / 0.5) ** 2 if self._sugar < 1.2 else -2.0)
        self._yeast = min(max(self._yeast, 0.05), 1.0)
        self._steps += 1
        reward = -0.2 * abs(self._heat - self._wanted)
        if self._steps % self.DRAWN == 0:
            drawn = 0.7 * self._yeast
            self._yeast -= drawn
            self._beer += 10.0 * drawn
            reward += 10.0 * drawn
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._beer > self.GOOD * self.STEPS / self.DRAWN else "miss"} if over else {}
        return self._observation(), float(reward), False, over, ended

    def _observation(self) -> Observation:
        left = 1.0 - (self._steps % self.DRAWN) / self.DRAWN
        seen = [self._heat, 4.0 * self._draught, self._wanted, self._sugar, 2.0 * self._yeast, left]
        return np.array(seen, dtype=np.float32)


class Crossing(gymnasium.Env[Observation, Any]):
    """Set the lights of three crossings for 100 steps: what leaves one on the main road comes to the next, a light that
    changes lets nobody through in that step, and each car that waits costs.
    """

    STEPS, LIGHTS, MOST, GOOD = 100, 3, 30, 1_100.0

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3 * self.LIGHTS,), np.float32)
        self.action_space = spaces.MultiDiscrete([2] * self.LIGHTS)
        self._cars = np.zeros((self.LIGHTS, 2), dtype=np.int64)
        self._green = np.zeros(self.LIGHTS, dtype=np.int64)
        self._busy, self._waited, self._steps = 0.0, 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._cars = self.np_random.integers(0, 8, size=(self.LIGHTS, 2))
        self._green = self.np_random.integers(0, 2, size=self.LIGHTS)
        self._busy, self._waited, self._steps = float(self.np_random.uniform(0.6, 1.2)), 0.0, 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        chosen = np.asarray(action, dtype=np.int64).reshape(self.LIGHTS)
        coming = self.np_random.poisson(0.6 * self._busy, size=(self.LIGHTS, 2))
        coming[1:, 0] //= 2
        for light in range(self.LIGHTS):
            if chosen[light] == self._green[light]:
                through = min(int(self._cars[light, chosen[light]]), 3)
                self._cars[light, chosen[light]] -= through
                if chosen[light] == 0 and light + 1 < self.LIGHTS:
                    coming[light + 1, 0] += through
        self._green = chosen
        self._cars = np.minimum(self._cars + coming, self.MOST)
        waiting = float(self._cars.sum())
        self._waited += waiting
        self._steps += 1
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._waited < self.GOOD else "miss"} if over else {}
        return self._observation(), -waiting, False, over, ended

    def _observation(self) -> Observation:
        return np.concatenate([self._cars.ravel() / 10.0, self._green]).astype(np.float32)


class Blending(gymnasium.Env[Observation, Any]):
    """Bring three parts of a blend to what an order asks, within 40 steps: each step pays the product of how near the
    three are, which is nothing while one of them is far away.
    """

    STEPS, PARTS, GOOD = 40, 3, 24.0

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2 * self.PARTS,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (self.PARTS,), np.float32)
        self._parts, self._order = np.zeros(self.PARTS), np.zeros(self.PARTS)
        self._steps, self._paid = 0, 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._parts = self.np_random.uniform(-1.0, 1.0, size=self.PARTS)
        self._order = self.np_random.uniform(-1.0, 1.0, size=self.PARTS)
        self._steps, self._paid = 0, 0.0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        push = np.clip(np.asarray(action, dtype=float).reshape(self.PARTS), -1.0, 1.0)
        # What is poured into one part thins the two others.
        self._parts = self._parts + 0.12 * push - 0.04 * (push.sum() - push)
        near = np.maximum(1.0 - np.abs(self._parts - self._order), 0.0)
        reward = float(np.prod(near))
        self._paid += reward
        self._steps += 1
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._paid > self.GOOD else "miss"} if over else {}
        return self._observation(), reward, False, over, ended

    def _observation(self) -> Observation:
        return np.concatenate([self._parts, self._order]).astype(np.float32)


class Hunting(gymnasium.Env[Observation, Any]):
    """Catch a prey in a round field within 60 steps: it runs where the hunter is not, slower than it, and dodges to the
    side from which hunters came less often, those of former episodes too.
    """

    STEPS, FIELD, NEAR = 60, 1.0, 0.1

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (8,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._hunter, self._speed, self._prey = np.zeros(2), np.zeros(2), np.zeros(2)
        self._side, self._habit, self._steps = 1.0, 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        angle = float(self.np_random.uniform(0.0, 2.0 * np.pi))
        self._hunter = 0.8 * np.array([np.cos(angle), np.sin(angle)])
        self._prey = self.np_random.uniform(-0.5, 0.5, size=2)
        self._speed, self._side, self._steps = np.zeros(2), 1.0, 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        push = np.clip(np.asarray(action, dtype=float).reshape(2), -1.0, 1.0)
        self._speed = 0.7 * self._speed + 0.02 * push
        self._hunter = self._within(self._hunter + self._speed)
        away = self._prey - self._hunter
        distance = float(np.hypot(*away)) + 1e-6
        across = np.array([-away[1], away[0]]) / distance
        self._habit += 0.02 * (float(np.sign(self._speed @ across)) - self._habit)
        if self.np_random.random() < 0.1:
            self._side = -1.0 if self.np_random.random() < 0.5 + 0.4 * self._habit else 1.0
        run = away / distance - 0.8 * self._prey + self._side * across * (distance < 0.5)
        self._prey = self._within(self._prey + 0.045 * run / (float(np.hypot(*run)) + 1e-6))
        self._steps += 1
        distance = float(np.hypot(*(self._prey - self._hunter)))
        caught = distance < self.NEAR
        late = self._steps >= self.STEPS and not caught
        ended = {"outcome": "hit" if caught else "miss"} if caught or late else {}
        return self._observation(), 5.0 * caught - 0.1 * distance, caught, late, ended

    def _within(self, place: Any) -> Any:
        return place / max(1.0, float(np.hypot(*place)) / self.FIELD)

    def _observation(self) -> Observation:
        seen = [self._hunter, 10.0 * self._speed, self._prey, self._prey - self._hunter]
        return np.concatenate(seen).astype(np.float32)


class Drilling(gymnasium.Env[Observation, np.int64]):
    """Drill for at most 80 steps at one of four speeds, the first of which is none and lets off pressure: speed pays
    and brings pressure, which is seen through noise; the more of it, the likelier the well blows out, which costs 30.
    """

    STEPS, GOOD = 80, 60

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._pressure = self._shown = self._rock = 0.0
        self._steps = self._deep = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._pressure, self._shown, self._rock = 0.2, 0.2, float(self.np_random.uniform(0.5, 1.5))
        self._steps = self._deep = 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        speed = int(action)
        self._rock = min(max(self._rock + 0.05 * float(self.np_random.normal()), 0.5), 1.5)
        grown = 0.04 * self._rock * speed * speed if speed else -0.15
        self._pressure = max(self._pressure + grown - 0.03 + 0.02 * float(self.np_random.normal()), 0.0)
        self._shown = self._pressure + 0.1 * float(self.np_random.normal())
        self._deep += speed
        self._steps += 1
        blown = bool(self.np_random.random() < 0.1 * max(self._pressure - 0.5, 0.0))
        late = self._steps >= self.STEPS and not blown
        ended = {"outcome": "hit" if late and self._deep >= self.GOOD else "miss"} if blown or late else {}
        return self._observation(), 0.3 * speed - 30.0 * blown, blown, late, ended

    def _observation(self) -> Observation:
        return np.array([self._shown, self._rock, self._steps / self.STEPS, self._deep / 60.0], dtype=np.float32)


class Fishing(gymnasium.Env[Observation, np.int64]):
    """Fish for 60 days with one boat of several, at one of five efforts; the others soon do what they see it do. It is
    paid what it catches and half of what one of them does. The stock is seen through noise, and grows back the slower
    the less is left.
    """

    STEPS, GOOD = 60, 18.0

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float32)
        self.action_space = spaces.Discrete(5)
        self._stock = self._others = self._caught = self._theirs = self._paid = 0.0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._stock, self._others = float(self.np_random.uniform(0.3, 1.0)), float(self.np_random.uniform(0.0, 4.0))
        self._caught = self._theirs = self._paid = 0.0
        self._steps = 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        effort = float(action)
        luck = float(np.exp(0.3 * self.np_random.normal() - 0.045))
        self._caught, self._theirs = (0.5 * it * self._stock * luck for it in (effort, self._others))
        self._stock -= 0.04 * (effort + 1.5 * self._others) * self._stock
        self._stock = min(self._stock + 0.2 * self._stock * (1.0 - self._stock) + 0.002, 1.0)
        self._others += 0.4 * (effort - self._others)
        reward = self._caught + 0.5 * self._theirs
        self._paid += reward
        self._steps += 1
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._paid > self.GOOD else "miss"} if over else {}
        return self._observation(), reward, False, over, ended

    def _observation(self) -> Observation:
        left = 1.0 - self._steps / self.STEPS
        sonar = self._stock + 0.1 * float(self.np_random.normal())
        return np.array([sonar, self._caught, self._theirs, 0.5 * self._others, left], dtype=np.float32)


for _world in (Blending, Brewing, Crossing, Drilling, Fishing, Hunting):
    gymnasium.register(f"{_world.__name__}-v0", entry_point=f"{__name__}:{_world.__name__}")
