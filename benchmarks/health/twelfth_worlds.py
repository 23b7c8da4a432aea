"""Small environments of the twelfth set, of kinds that the others lack: two arms that lift one of two things, a toll
road whose episodes are long, a torch whose two actions have units of their own, orders for mills, cards of which few
may be put down, a ball that is seen in two of three moments. Importing this module registers them.

As in `worlds`, an outcome says how an episode went where a tampered reward would hide it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from benchmarks.health.noisy_worlds import Start, Step
from benchmarks.health.worlds import Observation

__all__ = ["Keeping", "Lifting", "Milling", "Shedding", "Tolling", "Welding"]


class Lifting(gymnasium.Env[Observation, Any]):
    """Bring both hands of two arms, of two joints each, to the one of two things that a cue names, within 50 steps:
    what they are away from it costs, and each step in which both hold it pays.
    """

    STEPS, NEAR, GOOD = 50, 0.25, 15

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (17,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self._joints, self._things = np.zeros(4), np.zeros((2, 2))
        self._named = self._steps = self._held = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._joints = np.array([2.4, -0.8, 0.7, 0.8]) + self.np_random.uniform(-0.3, 0.3, size=4)
        self._things = self.np_random.uniform([-0.4, 0.2], [0.4, 0.8], size=(2, 2))
        self._named, self._steps, self._held = int(self.np_random.integers(2)), 0, 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        self._joints = self._joints + 0.15 * np.clip(np.asarray(action, dtype=float).reshape(4), -1.0, 1.0)
        away = np.hypot(*(self._hands() - self._things[self._named]).T)
        holds = bool(np.all(away < self.NEAR))
        self._steps += 1
        self._held += holds
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._held >= self.GOOD else "miss"} if over else {}
        return self._observation(), 0.5 * holds - float(away.sum()), False, over, ended

    def _hands(self) -> Any:
        first, second = self._joints[::2], self._joints[::2] + self._joints[1::2]
        across = np.array([-0.5, 0.5]) + 0.5 * (np.cos(first) + np.cos(second))
        return np.stack([across, 0.5 * (np.sin(first) + np.sin(second))], axis=1)

    def _observation(self) -> Observation:
        cue = 2.0 * self._named - 1.0
        angles = np.cos(self._joints), np.sin(self._joints)
        seen = [*angles, self._hands().ravel(), self._things.ravel(), [cue]]
        return np.concatenate(seen).astype(np.float32)


class Tolling(gymnasium.Env[Observation, np.int64]):
    """Open and shut the booths of a toll road, one at a time, 500 times, through five days with two rushes each: an
    open booth costs 1 and lets two cars pass, a car that waits costs 0.1.
    """

    STEPS, DAY, BOOTHS, MOST, GOOD = 500, 100, 8, 80, -1_900.0

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._open = self._waiting = self._came = self._steps = self._hour = 0
        self._paid = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._open, self._waiting, self._came = self.BOOTHS // 2, 0, 0
        self._steps, self._paid, self._hour = 0, 0.0, int(self.np_random.integers(self.DAY))
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        self._open = min(max(self._open + int(action) - 1, 0), self.BOOTHS)
        self._hour = (self._hour + 1) % self.DAY
        rush = max(0.0, np.sin(4.0 * np.pi * self._hour / self.DAY))
        self._came = int(self.np_random.poisson(2.0 + 11.0 * rush))
        self._waiting = min(max(self._waiting + self._came - 2 * self._open, 0), self.MOST)
        cost = float(self._open) + 0.1 * self._waiting
        self._paid -= cost
        self._steps += 1
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._paid > self.GOOD else "miss"} if over else {}
        return self._observation(), -cost, False, over, ended

    def _observation(self) -> Observation:
        angle = 4.0 * np.pi * self._hour / self.DAY
        seen = [self._open / self.BOOTHS, self._waiting / 20.0, self._came / 10.0, np.sin(angle), np.cos(angle)]
        return np.array(seen, dtype=np.float32)


class Welding(gymnasium.Env[Observation, Any]):
    """Lead a torch along a seam for 40 steps, by a push of at most 0.05 and a current of up to 10: what it is beside
    the seam costs, and so does metal that is hotter or colder than its thickness asks.
    """

    STEPS, GOOD = 40, 0.3

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        low, high = np.array([-0.05, 0.0], np.float32), np.array([0.05, 10.0], np.float32)
        self.action_space = spaces.Box(low, high, (2,), np.float32)
        self._beside = self._drift = self._heat = self._thick = self._cost = 0.0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._beside, self._drift = float(self.np_random.uniform(-0.5, 0.5)), 0.0
        self._heat, self._thick = 0.0, float(self.np_random.random())
        self._cost, self._steps = 0.0, 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        push, current = np.asarray(action, dtype=float).reshape(2)
        self._drift = 0.9 * self._drift + 0.008 * float(self.np_random.normal())
        self._beside += float(np.clip(push, -0.05, 0.05)) + self._drift
        self._heat += 0.4 * (float(np.clip(current, 0.0, 10.0)) - self._heat)
        self._thick = min(max(self._thick + 0.05 * float(self.np_random.normal()), 0.0), 1.0)
        cost = 2.0 * abs(self._beside) + 0.3 * abs(self._heat - 3.0 - 5.0 * self._thick)
        self._cost += cost
        self._steps += 1
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._cost < self.GOOD * self.STEPS else "miss"} if over else {}
        return self._observation(), -cost, False, over, ended

    def _observation(self) -> Observation:
        return np.array([self._beside, 20.0 * self._drift, 0.2 * self._heat, self._thick], dtype=np.float32)


class Milling(gymnasium.Env[Observation, Any]):
    """Give one of five orders to one of three mills, at one of two speeds, 60 times: what is done in time pays 1, an
    order that is late or lost costs 0.5, speed costs 0.1 for each hour of work, and a mill that is busy takes nothing.
    """

    STEPS, ORDERS, MILLS, GOOD = 60, 5, 3, 31

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2 * self.ORDERS + self.MILLS,), np.float32)
        self.action_space = spaces.MultiDiscrete([self.ORDERS, self.MILLS, 2])
        self._work, self._due = np.zeros(self.ORDERS, dtype=np.int64), np.zeros(self.ORDERS, dtype=np.int64)
        self._busy = np.zeros(self.MILLS, dtype=np.int64)
        self._steps = self._done = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        for order in range(self.ORDERS):
            self._renew(order)
        self._busy[:] = 0
        self._steps = self._done = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        order, mill, fast = (int(it) for it in np.asarray(action).reshape(3))
        reward = -0.1
        if not self._busy[mill]:
            hours = (self._work[order] + 1) // 2 if fast else self._work[order]
            in_time = bool(hours <= self._due[order])
            reward = (1.0 if in_time else -0.5) - 0.1 * fast * float(self._work[order])
            self._done += in_time
            self._busy[mill] = hours
            self._renew(order)
        self._busy = np.maximum(self._busy - 1, 0)
        self._due -= 1
        for lost in np.flatnonzero(self._due < 0):
            reward -= 0.5
            self._renew(int(lost))
        self._steps += 1
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._done >= self.GOOD else "miss"} if over else {}
        return self._observation(), float(reward), False, over, ended

    def _renew(self, order: int) -> None:
        self._work[order] = self.np_random.integers(2, 8)
        self._due[order] = self.np_random.integers(3, 20)

    def _observation(self) -> Observation:
        return np.concatenate([self._work / 4.0, self._due / 10.0, self._busy / 4.0]).astype(np.float32)


class Shedding(gymnasium.Env[Observation, np.int64]):
    """Put down a hand of four cards within 30 moves, or draw one: a card must have the suit or the rank of the one that
    lies there. A card put down pays 0.2, the last one 2, a draw costs 0.1, and a move that is not allowed 0.5.
    """

    HAND, SUITS, RANKS, LIMIT = 4, 3, 3, 30

    def __init__(self) -> None:
        self._card = self.SUITS + self.RANKS
        self.observation_space = spaces.Box(0.0, 1.0, (self._card * (self.HAND + 1),), np.float32)
        self.action_space = spaces.Discrete(self.HAND + 1)
        self._hand: list[tuple[int, int] | None] = [None] * self.HAND
        self._top, self._moves = (0, 0), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._hand = [self._dealt() for _ in range(self.HAND)]
        self._top, self._moves = self._dealt(), 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        reward, place = -0.5, int(action)
        if place == self.HAND:
            if None in self._hand:
                self._hand[self._hand.index(None)] = self._dealt()
                reward = -0.1
        else:
            card = self._hand[place]
            if card is not None and (card[0] == self._top[0] or card[1] == self._top[1]):
                self._hand[place], self._top = None, card
                reward = 0.2
            elif card is not None and None not in self._hand and not self._any_fits():
                # Nobody can draw into a full hand: a card that fits nowhere is then changed for another.
                self._hand[place] = self._dealt()
                reward = -0.1
        self._moves += 1
        out = all(card is None for card in self._hand)
        late = self._moves >= self.LIMIT and not out
        ended = {"outcome": "hit" if out else "miss"} if out or late else {}
        return self._observation(), reward + 2.0 * out, out, late, ended

    def _dealt(self) -> tuple[int, int]:
        return int(self.np_random.integers(self.SUITS)), int(self.np_random.integers(self.RANKS))

    def _any_fits(self) -> bool:
        return any(card and (card[0] == self._top[0] or card[1] == self._top[1]) for card in self._hand)

    def _observation(self) -> Observation:
        seen = np.zeros((self.HAND + 1, self._card), dtype=np.float32)
        for place, card in enumerate([*self._hand, self._top]):
            if card is not None:
                seen[place, card[0]] = seen[place, self.SUITS + card[1]] = 1.0
        return seen.ravel()


class Keeping(gymnasium.Env[Observation, np.int64]):
    """Keep a goal against a ball that bounces off two walls and swerves, 20 steps away: where it is is seen in two of
    three moments, how fast it is never. Only the end pays, 1 or -1.
    """

    STEPS, WIDE, REACH = 20, 0.22, 0.12

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-2.0, 2.0, (4,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._ball = self._speed = self._keeper = 0.0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._ball, self._speed = float(self.np_random.uniform(-1.0, 1.0)), float(self.np_random.uniform(-0.12, 0.12))
        self._keeper, self._steps = 0.0, 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        self._keeper = min(max(self._keeper + self.REACH * (int(action) - 1), -1.0), 1.0)
        self._speed += 0.004 * float(self.np_random.normal())
        self._ball += self._speed
        if abs(self._ball) > 1.0:
            self._ball, self._speed = float(np.sign(self._ball)) * 2.0 - self._ball, -self._speed
        self._steps += 1
        if self._steps < self.STEPS:
            return self._observation(), 0.0, False, False, {}
        held = abs(self._ball - self._keeper) < self.WIDE
        return self._observation(), 1.0 if held else -1.0, True, False, {"outcome": "hit" if held else "miss"}

    def _observation(self) -> Observation:
        seen = self.np_random.random() > 1.0 / 3.0
        left = 1.0 - self._steps / self.STEPS
        return np.array([self._keeper, left, float(seen), self._ball * seen], dtype=np.float32)


for _world in (Keeping, Lifting, Milling, Shedding, Tolling, Welding):
    gymnasium.register(f"{_world.__name__}-v0", entry_point=f"{__name__}:{_world.__name__}")
