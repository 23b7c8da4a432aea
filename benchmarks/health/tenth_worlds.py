"""Small environments of the tenth and the eleventh set, most of kinds that the others lack: a car, a lawn that is seen
as a grid of layers, boxes that are seen through a dictionary, valves that are open or shut each for itself, slots of
which the full ones are masked, halls whose cooling costs more than ten thousand; then a horn that is only heard, four
rooms with one way out, a boat with eight oars, a slalom that ends at the first gate that is missed, a lift that many
wait for, a target that moves away from whoever hits it. Importing this module registers them.

As in `worlds`, an outcome says how an episode went where a tampered reward would hide it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from benchmarks.health.noisy_worlds import Start, Step
from benchmarks.health.worlds import Observation

__all__ = [
    "Cooling",
    "Elevating",
    "Escaping",
    "Filing",
    "Homing",
    "Mowing",
    "Packing",
    "Parking",
    "Rowing",
    "Skiing",
    "Throwing",
    "Watering",
]


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


class Homing(gymnasium.Env[Observation, np.int64]):
    """Find a horn on a field of 7 x 7 squares by how loud it is, within 40 steps: where it is is never seen. Each step
    costs 0.05, and the horn pays 1.
    """

    SIDE, LIMIT = 7, 40

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 6.0, (6,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._at, self._horn = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
        self._went = -1
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._at = self.np_random.integers(self.SIDE, size=2)
        self._horn = (self._at + self.np_random.integers(2, self.SIDE - 1, size=2)) % self.SIDE
        self._went, self._steps = -1, 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        self._went = int(action)
        self._at = np.clip(self._at + ((0, 1), (1, 0), (0, -1), (-1, 0))[self._went], 0, self.SIDE - 1)
        self._steps += 1
        found, late = bool(np.all(self._at == self._horn)), self._steps >= self.LIMIT
        ended = {"outcome": "hit" if found else "miss"} if found or late else {}
        return self._observation(), 0.95 if found else -0.05, found, late and not found, ended

    def _observation(self) -> Observation:
        seen = np.zeros(6, dtype=np.float32)
        seen[self._went if self._went >= 0 else 4] = 1.0
        seen[5] = 6.0 - 0.5 * float(np.abs(self._at - self._horn).sum())
        return seen


class Escaping(gymnasium.Env[Observation, np.int64]):
    """Leave four rooms of 5 x 5 squares with narrow doors by the far corner, within 300 steps: only that pays, 1."""

    SIDE, WALL, LIMIT = 11, 5, 300
    DOORS = ((5, 1), (5, 8), (2, 5), (9, 5))

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (2 * self.SIDE,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._row = self._column = self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._row, self._column = (int(it) for it in self.np_random.integers(self.WALL, size=2))
        self._steps = 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        # One step in ten goes somewhere else.
        way = int(action) if self.np_random.random() > 0.1 else int(self.np_random.integers(4))
        down, right = ((0, 1), (1, 0), (0, -1), (-1, 0))[way]
        square = self._row + down, self._column + right
        wall = self.WALL in square and square not in self.DOORS
        if not wall and min(square) >= 0 and max(square) < self.SIDE:
            self._row, self._column = square
        self._steps += 1
        out, late = self._row == self._column == self.SIDE - 1, self._steps >= self.LIMIT
        return self._observation(), float(out), out, late and not out, {}

    def _observation(self) -> Observation:
        seen = np.zeros(2 * self.SIDE, dtype=np.float32)
        seen[self._row] = seen[self.SIDE + self._column] = 1.0
        return seen


class Rowing(gymnasium.Env[Observation, Any]):
    """Bring a boat to its mark with eight oars and hold it there, 120 steps, in a current that changes: each oar pushes
    it another way and turns it.
    """

    STEPS, OARS = 120, 8

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (8,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (self.OARS,), np.float32)
        angles = np.linspace(0.0, 2.0 * np.pi, self.OARS, endpoint=False)
        self._pushes = np.array([np.cos(angles), np.sin(angles), np.where(np.arange(self.OARS) % 2, 1.0, -1.0)])
        self._at, self._speed, self._current = np.zeros(3), np.zeros(3), np.zeros(2)
        self._away, self._steps = 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._at, self._speed = self.np_random.uniform(-1.0, 1.0, size=3), np.zeros(3)
        self._current = 0.03 * self.np_random.normal(size=2)
        self._away, self._steps = 0.0, 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        pulls = np.clip(np.asarray(action, dtype=float).reshape(self.OARS), -1.0, 1.0)
        self._current = 0.98 * self._current + 0.006 * self.np_random.normal(size=2)
        self._speed = 0.85 * self._speed + 0.03 * self._pushes @ pulls
        self._at = self._at + self._speed + [*self._current, 0.0]
        self._at[:2] = np.clip(self._at[:2], -3.0, 3.0)
        self._at[2] = (self._at[2] + np.pi) % (2.0 * np.pi) - np.pi
        self._steps += 1
        away = float(np.hypot(self._at[0], self._at[1]))
        self._away += away
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._away < 0.6 * self.STEPS else "miss"} if over else {}
        cost = away + 0.3 * abs(float(self._at[2])) + 0.02 * float(np.sum(pulls**2))
        return self._observation(), -cost, False, over, ended

    def _observation(self) -> Observation:
        return np.concatenate([self._at, self._speed, self._current]).astype(np.float32)


class Skiing(gymnasium.Env[Observation, np.int64]):
    """Ski through up to 40 gates that get narrower, eight steps apart: each pays 1, the first one missed ends it."""

    GATES, APART = 40, 8

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._at = self._drift = self._gate = self._next = 0.0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._at, self._drift, self._steps = 0.0, 0.0, 0
        self._gate, self._next = (float(it) for it in self.np_random.uniform(-1.0, 1.0, size=2))
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        self._drift = 0.9 * self._drift + 0.08 * (int(action) - 1) + 0.03 * float(self.np_random.normal())
        self._at += self._drift
        self._steps += 1
        if self._steps % self.APART:
            return self._observation(), 0.0, False, False, {}
        passed = abs(self._at - self._gate) < self._width()
        self._gate, self._next = self._next, float(self.np_random.uniform(-1.0, 1.0))
        over = self._steps >= self.GATES * self.APART
        return self._observation(), float(passed), not passed, over and passed, {}

    def _width(self) -> float:
        return 0.7 * 0.97 ** (self._steps // self.APART)

    def _observation(self) -> Observation:
        left = self.APART - self._steps % self.APART
        seen = [self._gate - self._at, self._next - self._gate, 5.0 * self._drift, left / self.APART, self._width()]
        return np.array(seen, dtype=np.float32)


class Elevating(gymnasium.Env[Observation, np.int64]):
    """Move a lift between five floors, up or down or to let people in and out, 60 times: who arrives pays 1, who waits
    or rides costs 0.03 a step.
    """

    STEPS, FLOORS, MOST, GOOD = 60, 5, 4, 14

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (3 * self.FLOORS,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._waiting, self._riding = np.zeros(self.FLOORS, dtype=np.int64), np.zeros(self.FLOORS, dtype=np.int64)
        self._floor = self._steps = self._arrived = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._waiting[:] = self._riding[:] = 0
        self._floor, self._steps, self._arrived = int(self.np_random.integers(self.FLOORS)), 0, 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        reward = 0.0
        if int(action) < 2:
            self._floor = min(max(self._floor + (1, -1)[int(action)], 0), self.FLOORS - 1)
        else:
            reward = float(self._riding[self._floor])
            self._arrived += int(reward)
            self._riding[self._floor] = 0
            for _ in range(self._waiting[self._floor]):
                self._riding[(self._floor + int(self.np_random.integers(1, self.FLOORS))) % self.FLOORS] += 1
            self._waiting[self._floor] = 0
        if self.np_random.random() < 0.35:
            floor = int(self.np_random.integers(self.FLOORS))
            self._waiting[floor] = min(self._waiting[floor] + 1, self.MOST)
        self._steps += 1
        reward -= 0.03 * float(self._waiting.sum() + self._riding.sum())
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._arrived >= self.GOOD else "miss"} if over else {}
        return self._observation(), reward, False, over, ended

    def _observation(self) -> Observation:
        at = np.eye(self.FLOORS)[self._floor]
        people = np.minimum([*self._waiting, *self._riding], self.MOST) / self.MOST
        return np.concatenate([at, people]).astype(np.float32)


class Throwing(gymnasium.Env[Observation, Any]):
    """Throw ten balls by force and aim against a wind: a hit pays 1, another throw costs what it misses by. After seven
    hits the targets of the next episode are smaller and lie in a wider field with more wind, after two hits or less it
    is the other way round: returns fall where one gets better.
    """

    THROWS, LEVELS, GOOD = 10, 12, 6

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._level = 1
        self._target, self._wind = np.zeros(2), np.zeros(2)
        self._thrown = self._hits = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        if self._thrown >= self.THROWS:
            self._level += (self._hits >= 7) - (self._hits <= 2)
            self._level = min(max(self._level, 1), self.LEVELS)
        self._thrown = self._hits = 0
        self._set_up()
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        force, aim = np.clip(np.asarray(action, dtype=float).reshape(2), -1.0, 1.0)
        away = 1.0 + 0.8 * float(force)
        fell = away * np.array([np.cos(1.2 * aim), np.sin(1.2 * aim)]) + self._wind * away**2
        missed = float(np.hypot(*(fell + 0.03 * self.np_random.normal(size=2) - self._target)))
        hit = missed < 0.35 - 0.25 * self._level / self.LEVELS
        self._thrown += 1
        self._hits += hit
        over = self._thrown >= self.THROWS
        good = self._hits >= 3 and self._level >= self.GOOD
        ended = {"outcome": "hit" if good else "miss"} if over else {}
        self._set_up()
        return self._observation(), 1.0 if hit else -min(missed, 1.0), False, over, ended

    def _set_up(self) -> None:
        wide = self._level / self.LEVELS
        away, angle = 1.0 + 0.6 * wide * self.np_random.uniform(-1.0, 1.0), wide * self.np_random.uniform(-1.0, 1.0)
        self._target = away * np.array([np.cos(angle), np.sin(angle)])
        self._wind = 0.25 * wide * self.np_random.uniform(-1.0, 1.0, size=2)

    def _observation(self) -> Observation:
        return np.concatenate([self._target, 4.0 * self._wind]).astype(np.float32)


for _world in (
    Cooling,
    Elevating,
    Escaping,
    Filing,
    Homing,
    Mowing,
    Packing,
    Parking,
    Rowing,
    Skiing,
    Throwing,
    Watering,
):
    gymnasium.register(f"{_world.__name__}-v0", entry_point=f"{__name__}:{_world.__name__}")
