"""Small environments of the tenth set, most of kinds that the others lack: a car, a lawn that is seen as a grid of
layers, boxes that are seen through a dictionary, valves that are open or shut each for itself, slots of which the full
ones are masked, halls whose cooling costs more than ten thousand. Importing this module registers them.

As in `worlds`, an outcome says how an episode went where a tampered reward would hide it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from benchmarks.health.noisy_worlds import Start, Step
from benchmarks.health.worlds import Observation

__all__ = ["Cooling", "Filing", "Mowing", "Packing", "Parking", "Watering"]


class Parking(gymnasium.Env[Observation, Any]):
    """Drive a car by its speed and its wheel to a bay and stand in it along its axis, 50 steps: each costs the way that
    is left and the angle that is off.
    """

    STEPS = 50

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._x = self._y = self._heading = self._speed = 0.0
        self._steps = self._near = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._x, self._y = (float(it) for it in self.np_random.uniform(-1.0, 1.0, size=2))
        self._heading, self._speed = float(self.np_random.uniform(-0.8, 0.8)), 0.0
        self._steps = self._near = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        push, wheel = np.clip(np.asarray(action, dtype=float).reshape(2), -1.0, 1.0)
        self._speed += 0.5 * (float(push) - self._speed)
        self._heading += 0.6 * self._speed * float(wheel)
        self._x += 0.12 * self._speed * np.cos(self._heading)
        self._y += 0.12 * self._speed * np.sin(self._heading)
        away = float(np.hypot(self._x, self._y))
        self._steps += 1
        self._near += away < 0.3
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if 5 * self._near > 2 * self.STEPS else "miss"} if over else {}
        cost = away + 0.2 * (1.0 - np.cos(self._heading)) + 0.02 * float(push) ** 2
        return self._observation(), -float(cost), False, over, ended

    def _observation(self) -> Observation:
        angle = np.cos(self._heading), np.sin(self._heading)
        return np.array([self._x, self._y, *angle, self._speed], dtype=np.float32)


class Mowing(gymnasium.Env[Observation, np.int64]):
    """Mow a lawn of 6 x 6 squares round three trees within 60 steps, seen as three layers: each new square pays 1, each
    step costs 0.1, and a bump as much again.
    """

    SIDE, LIMIT, TREES = 6, 60, 3

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (3, self.SIDE, self.SIDE), np.float32)
        self.action_space = spaces.Discrete(4)
        self._layers = np.zeros((3, self.SIDE, self.SIDE), dtype=np.float32)
        self._row = self._column = self._steps = self._mown = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._layers[:] = 0.0
        squares = self.np_random.choice(self.SIDE * self.SIDE - 1, size=self.TREES, replace=False) + 1
        self._layers[2].flat[squares] = 1.0
        self._row = self._column = self._steps = 0
        self._layers[0, 0, 0] = self._layers[1, 0, 0] = 1.0
        self._mown = 1
        return self._layers.copy(), {}

    def step(self, action: np.int64) -> Step:
        down, right = ((0, 1), (1, 0), (0, -1), (-1, 0))[int(action)]
        row, column = self._row + down, self._column + right
        inside = 0 <= row < self.SIDE and 0 <= column < self.SIDE
        reward = -0.1
        if inside and not self._layers[2, row, column]:
            self._layers[0, self._row, self._column] = 0.0
            self._row, self._column = row, column
            self._layers[0, row, column] = 1.0
            new = not self._layers[1, row, column]
            reward += float(new)
            self._mown += new
            self._layers[1, row, column] = 1.0
        else:
            reward -= 0.1
        self._steps += 1
        wanted = self.SIDE * self.SIDE - self.TREES
        done, late = self._mown >= wanted, self._steps >= self.LIMIT
        ended = {"outcome": "hit" if 4 * self._mown >= 3 * wanted else "miss"} if done or late else {}
        return self._layers.copy(), reward, done, late and not done, ended


class Packing(gymnasium.Env[dict[str, Any], np.int64]):
    """Put 40 parcels of five sizes into one of four boxes that hold ten each: a box that is exactly full pays 1 and is
    taken away, one that overflows costs 1. Boxes and parcel are seen through a dictionary.
    """

    PARCELS, BOXES, HOLDS, SIZES = 40, 4, 10, 5

    def __init__(self) -> None:
        seen = {"boxes": spaces.Box(0.0, 1.0, (self.BOXES,), np.float32), "parcel": spaces.Discrete(self.SIZES)}
        self.observation_space = spaces.Dict(seen)
        self.action_space = spaces.Discrete(self.BOXES)
        self._boxes = np.zeros(self.BOXES, dtype=np.int64)
        self._parcel = self._seen = self._full = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._boxes[:] = 0
        self._seen = self._full = 0
        self._parcel = int(self.np_random.integers(self.SIZES))
        return self._observation(), {}

    def step(self, action: np.int64) -> Any:
        box = int(action)
        self._boxes[box] += self._parcel + 1
        reward = 0.0
        if self._boxes[box] >= self.HOLDS:
            reward = 1.0 if self._boxes[box] == self.HOLDS else -1.0
            self._full += int(reward)
            self._boxes[box] = 0
        self._seen += 1
        self._parcel = int(self.np_random.integers(self.SIZES))
        over = self._seen >= self.PARCELS
        ended = {"outcome": "hit" if self._full >= 4 else "miss"} if over else {}
        return self._observation(), reward, False, over, ended

    def _observation(self) -> dict[str, Any]:
        return {"boxes": (self._boxes / self.HOLDS).astype(np.float32), "parcel": np.int64(self._parcel)}


class Watering(gymnasium.Env[Observation, Any]):
    """Open or shut the valves of six beds, 320 times: each dries in its own time and in the sun, and the more of them
    are open the less comes out of each. What a bed is too dry or too wet is paid for.
    """

    STEPS, BEDS = 320, 6

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (self.BEDS + 1,), np.float32)
        self.action_space = spaces.MultiBinary(self.BEDS)
        self._dries = np.linspace(0.02, 0.09, self.BEDS)
        self._wet, self._sun, self._steps = np.zeros(self.BEDS), 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._wet, self._sun, self._steps = self.np_random.uniform(-0.5, 0.5, size=self.BEDS), 0.0, 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        opened = np.asarray(action, dtype=float).reshape(self.BEDS)
        self._sun = 0.98 * self._sun + 0.1 * float(self.np_random.normal())
        flow = 0.3 / max(1.0, float(opened.sum()) - 1.0)
        self._wet = np.clip(self._wet + flow * opened - self._dries * np.exp(self._sun), -2.0, 2.0)
        self._steps += 1
        cost = float(np.abs(self._wet).sum())
        return self._observation(), -cost, False, self._steps >= self.STEPS, {}

    def _observation(self) -> Observation:
        return np.array([*self._wet, self._sun], dtype=np.float32)


class Filing(gymnasium.Env[Observation, np.int64]):
    """File eight numbers between 0 and 1, as they come, into eight slots; a full one is masked. Paid is at the end: for
    each pair of neighbours that stands in order.
    """

    SLOTS = 8

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (self.SLOTS + 1,), np.float32)
        self.action_space = spaces.Discrete(self.SLOTS)
        self._slots, self._number = np.full(self.SLOTS, -1.0), 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._slots[:] = -1.0
        self._number = float(self.np_random.random())
        return self._observation(), {}

    def action_masks(self) -> Any:
        """Which slots are free, as sb3-contrib asks for it."""
        return self._slots < 0.0

    def step(self, action: np.int64) -> Step:
        # Who takes a slot that is full gets the next free one.
        free = [slot % self.SLOTS for slot in range(int(action), int(action) + self.SLOTS)]
        self._slots[next(slot for slot in free if self._slots[slot] < 0.0)] = self._number
        over = bool(np.all(self._slots >= 0.0))
        self._number = float(self.np_random.random())
        if not over:
            return self._observation(), 0.0, False, False, {}
        ordered = int(np.sum(np.diff(self._slots) > 0.0))
        return self._observation(), float(ordered), True, False, {"outcome": "hit" if ordered >= 5 else "miss"}

    def _observation(self) -> Observation:
        return np.array([*self._slots, self._number], dtype=np.float32)


class Cooling(gymnasium.Env[Observation, Any]):
    """Cool three halls that warm each other, by a fan each, for 100 steps: power costs up to 60 a step and fan, and a
    hall 300 for each degree that it is too warm.
    """

    STEPS, GOOD = 100, -7_000.0

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (6,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self._warm, self._load = np.zeros(3), np.zeros(3)
        self._paid, self._steps = 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._warm, self._load = self.np_random.uniform(-1.0, 1.0, size=3), self.np_random.normal(size=3)
        self._paid, self._steps = 0.0, 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        fans = 0.5 + 0.5 * np.clip(np.asarray(action, dtype=float).reshape(3), -1.0, 1.0)
        self._load = 0.95 * self._load + 0.3 * self.np_random.normal(size=3)
        self._warm += 0.3 * (1.0 + 0.5 * self._load) + 0.1 * (self._warm.mean() - self._warm) - 0.8 * fans
        self._warm = np.clip(self._warm, -3.0, 6.0)
        self._steps += 1
        cost = 60.0 * float(np.sum(fans**2)) + 300.0 * float(np.sum(np.maximum(0.0, self._warm)))
        self._paid -= cost
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._paid > self.GOOD else "miss"} if over else {}
        return self._observation(), -cost, False, over, ended

    def _observation(self) -> Observation:
        return np.concatenate([self._warm, self._load]).astype(np.float32)


for _world in (Cooling, Filing, Mowing, Packing, Parking, Watering):
    gymnasium.register(f"{_world.__name__}-v0", entry_point=f"{__name__}:{_world.__name__}")
