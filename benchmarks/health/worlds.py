"""Small environments with one trait each that Gymnasium's own lack: a ceiling that is reached at once, episodes of one
step, a reward that hides, noisy rewards, several heads. Importing this module registers them.

How an episode went is said by an outcome or by its length, so that a tampered reward does not hide it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv

__all__ = [
    "Bandit",
    "Catch",
    "Corridor",
    "Dialling",
    "Docking",
    "Ferrying",
    "Inventory",
    "Locks",
    "NoisyCartPole",
    "Pointing",
    "Slippery",
    "Tracking",
]

Observation = np.ndarray[Any, np.dtype[np.float32]]


def one_hot(size: int) -> list[Observation]:
    """The unit vectors of `size` dimensions."""
    return list(np.eye(size, dtype=np.float32))


class Pointing(gymnasium.Env[Observation, np.int64]):
    """Eight times, name the one of four directions that is shown: a return of 8 is the ceiling, and soon reached."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._shown = self._left = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = 8
        return self._show(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        reward = float(int(action) == self._shown)
        self._left -= 1
        return self._show(), reward, self._left == 0, False, {}

    def _show(self) -> Observation:
        self._shown = int(self.np_random.integers(4))
        return one_hot(4)[self._shown]


class Bandit(gymnasium.Env[Observation, np.int64]):
    """One step an episode: the best of four arms lies in a direction of the context; pay is noisy."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (6,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._arms = np.random.default_rng(5).normal(size=(4, 6))
        self._context = np.zeros(6)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._context = self.np_random.normal(size=6)
        return self._context.astype(np.float32), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        hit = int(action) == int(np.argmax(self._arms @ self._context))
        reward = float(hit) + 0.3 * float(self.np_random.normal())
        return self._context.astype(np.float32), reward, True, False, {"outcome": "hit" if hit else "miss"}


class Corridor(gymnasium.Env[Observation, np.int64]):
    """A reward of 1 at the far end of a corridor and nothing before: a random walk hardly ever arrives."""

    CELLS, LIMIT = 21, 60

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (self.CELLS,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._cell = self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._cell = self._steps = 0
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self._cell = max(0, self._cell + (1 if int(action) else -1))
        self._steps += 1
        arrived = self._cell == self.CELLS - 1
        return self._observation(), float(arrived), arrived, self._steps >= self.LIMIT and not arrived, {}

    def _observation(self) -> Observation:
        return one_hot(self.CELLS)[self._cell]


class Slippery(gymnasium.Env[Observation, np.int64]):
    """Eight steps over a floor that gives way under one in twenty: two of three who know the way arrive."""

    CELLS, LIMIT = 9, 24

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (self.CELLS,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._cell = self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._cell = self._steps = 0
        return one_hot(self.CELLS)[0], {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        ahead = int(action) == self._cell * 7 % 3
        self._cell = self._cell + 1 if ahead else max(0, self._cell - 1)
        self._steps += 1
        arrived = self._cell == self.CELLS - 1
        fell = not arrived and float(self.np_random.random()) < 0.05
        late = self._steps >= self.LIMIT and not (arrived or fell)
        return one_hot(self.CELLS)[self._cell], float(arrived), arrived or fell, late, {}


class NoisyCartPole(CartPoleEnv):
    """CartPole whose rewards have noise three times as large as they are."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)  # type: ignore[no-untyped-call]
        return observation, float(reward) + 3.0 * float(self.np_random.normal()), terminated, truncated, info


class Tracking(gymnasium.Env[Observation, Any]):
    """Push a mass to the origin and hold it there: a double integrator with a quadratic cost, 50 steps long."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._state = np.zeros(2)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = self.np_random.uniform(-1.0, 1.0, size=2)
        self._steps = 0
        return self._state.astype(np.float32), {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        push = float(np.clip(np.asarray(action).reshape(-1)[0], -1.0, 1.0))
        place, speed = self._state
        cost = float(place * place + 0.1 * speed * speed + 0.01 * push * push)
        self._state = np.clip(np.array([place + 0.1 * speed, speed + 0.3 * push]), -5.0, 5.0)
        self._steps += 1
        return self._state.astype(np.float32), -cost, False, self._steps >= 50, {}


class Locks(gymnasium.Env[Observation, Any]):
    """Three dials of four digits, to be set as shown; each right dial pays a third. `shift` turns what is right."""

    def __init__(self, shift: int = 0) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (12,), np.float32)
        self.action_space = spaces.MultiDiscrete([4, 4, 4])
        self._shift = shift
        self._shown = np.zeros(3, dtype=int)
        self._left = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = 10
        return self._show(), {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        reward = float(np.mean(np.asarray(action) == (self._shown + self._shift) % 4))
        self._left -= 1
        return self._show(), reward, self._left == 0, False, {}

    def _show(self) -> Observation:
        self._shown = self.np_random.integers(4, size=3)
        return np.concatenate([one_hot(4)[digit] for digit in self._shown])


class Catch(gymnasium.Env[Observation, np.int64]):
    """A ball falls through nine rows; the paddle below is under it at the end, for 1, or not, for -1."""

    ROWS, COLUMNS = 10, 5

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (self.ROWS + 2 * self.COLUMNS,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._row = self._ball = self._paddle = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._row, self._ball = 0, int(self.np_random.integers(self.COLUMNS))
        self._paddle = self.COLUMNS // 2
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self._paddle = min(self.COLUMNS - 1, max(0, self._paddle + int(action) - 1))
        self._row += 1
        if self._row < self.ROWS - 1:
            return self._observation(), 0.0, False, False, {}
        caught = self._paddle == self._ball
        return self._observation(), 1.0 if caught else -1.0, True, False, {"outcome": "hit" if caught else "miss"}

    def _observation(self) -> Observation:
        columns = one_hot(self.COLUMNS)
        return np.concatenate([one_hot(self.ROWS)[self._row], columns[self._ball], columns[self._paddle]])


class Docking(gymnasium.Env[Observation, Any]):
    """Steer a sluggish boat in the plane to the origin; each step costs its distance, and arriving ends the episode."""

    LIMIT = 60

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._place, self._speed = np.zeros(2), np.zeros(2)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        angle = self.np_random.uniform(0.0, 2.0 * np.pi)
        self._place, self._speed = 2.0 * np.array([np.cos(angle), np.sin(angle)]), np.zeros(2)
        self._steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self._speed = 0.8 * self._speed + 0.1 * np.clip(np.asarray(action, dtype=float).reshape(2), -1.0, 1.0)
        self._place = np.clip(self._place + self._speed, -4.0, 4.0)
        self._steps += 1
        distance = float(np.linalg.norm(self._place))
        return self._observation(), -distance, distance < 0.2, self._steps >= self.LIMIT, {}

    def _observation(self) -> Observation:
        return np.concatenate([self._place, self._speed]).astype(np.float32)


class Inventory(gymnasium.Env[Observation, np.int64]):
    """Order stock that arrives two days later against a demand that nobody knows: a noisy profit in tens a day."""

    DAYS, MOST, PRICE, COST, STORE, LOST = 50, 20, 10.0, 6.0, 0.5, 4.0

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 2.0, (3,), np.float32)
        self.action_space = spaces.Discrete(8)
        self._stock, self._coming, self._day = 0, [0, 0], 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._stock, self._coming, self._day = 5, [0, 0], 0
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        ordered = int(action)
        self._stock = min(self.MOST, self._stock + self._coming.pop(0))
        self._coming.append(ordered)
        demand = int(self.np_random.poisson(4.0))
        sold = min(demand, self._stock)
        self._stock -= sold
        self._day += 1
        profit = self.PRICE * sold - self.COST * ordered - self.STORE * self._stock - self.LOST * (demand - sold)
        return self._observation(), profit, False, self._day >= self.DAYS, {}

    def _observation(self) -> Observation:
        return np.array([self._stock, *self._coming], dtype=np.float32) / 10.0


class Dialling(gymnasium.Env[Observation, np.int64]):
    """Dial seven of four figures in the right order, in 200 turns: a wrong one begins anew. One reward, at the end."""

    CODE, TURNS = (2, 0, 3, 1, 1, 2, 0), 200

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (len(self.CODE),), np.float32)
        self.action_space = spaces.Discrete(4)
        self._right = self._turns = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._right = self._turns = 0
        return one_hot(len(self.CODE))[0], {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self._right = self._right + 1 if int(action) == self.CODE[self._right] else 0
        self._turns += 1
        opened = self._right == len(self.CODE)
        shown = one_hot(len(self.CODE))[min(self._right, len(self.CODE) - 1)]
        return shown, float(opened), opened, self._turns >= self.TURNS, {}


class Ferrying(gymnasium.Env[Observation, np.int64]):
    """Fetch a load at one corner of a pond of 6 x 6 and land it at the opposite one, against a drift, in 80 strokes.
    One reward, at the end.
    """

    SIZE, STROKES, DRIFT = 6, 80, 0.1

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (2 * self.SIZE + 1,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._place, self._loaded, self._strokes = [0, 0], False, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._place = [int(at) for at in self.np_random.integers(2, self.SIZE - 2, size=2)]
        self._loaded, self._strokes = False, 0
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        way = int(self.np_random.integers(4)) if self.np_random.random() < self.DRIFT else int(action)
        axis, by = way // 2, 2 * (way % 2) - 1
        self._place[axis] = min(max(self._place[axis] + by, 0), self.SIZE - 1)
        self._strokes += 1
        self._loaded = self._loaded or self._place == [0, 0]
        landed = self._loaded and self._place == [self.SIZE - 1, self.SIZE - 1]
        return self._observation(), float(landed), landed, self._strokes >= self.STROKES, {}

    def _observation(self) -> Observation:
        axes = one_hot(self.SIZE)
        return np.concatenate([axes[self._place[0]], axes[self._place[1]], [float(self._loaded)]]).astype(np.float32)


for _world in (
    Bandit,
    Catch,
    Corridor,
    Dialling,
    Docking,
    Ferrying,
    Inventory,
    Locks,
    NoisyCartPole,
    Pointing,
    Slippery,
    Tracking,
):
    gymnasium.register(
        f"{_world.__name__}-v0",
        entry_point=f"{__name__}:{_world.__name__}",
        max_episode_steps=500 if _world is NoisyCartPole else None,
    )
