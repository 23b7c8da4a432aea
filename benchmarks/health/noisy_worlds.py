"""Further small environments whose rewards are large, noisy, or both, as those of shops, queues and machines are.
Importing this module registers them.

As in `worlds`, an outcome or the length says how an episode went where a tampered reward would hide it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import AcrobotEnv

from benchmarks.health.worlds import Observation, Pointing

__all__ = [
    "Heating",
    "NoisyAcrobot",
    "NoisyPointing",
    "Pricing",
    "Queue",
    "Reaching",
    "Sailing",
    "Shipping",
    "Signalling",
    "Smelting",
]

Step = tuple[Observation, float, bool, bool, dict[str, Any]]
Start = tuple[Observation, dict[str, Any]]


class Pricing(gymnasium.Env[Observation, np.int64]):
    """Sell 60 seats within 40 days at one of eight prices: fewer buy at a higher one, and nobody knows how many."""

    DAYS, SEATS = 40, 60

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(8)
        self._left = self._day = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._left, self._day = self.SEATS, 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        price = 2.0 + 1.5 * int(action)
        wanted = int(self.np_random.poisson(6.0 * np.exp(-price / 4.5)))
        sold = min(wanted, self._left)
        self._left -= sold
        self._day += 1
        return self._observation(), price * sold, False, self._day >= self.DAYS, {}

    def _observation(self) -> Observation:
        return np.array([self._left / self.SEATS, self._day / self.DAYS], dtype=np.float32)


class Heating(gymnasium.Env[Observation, Any]):
    """Keep two rooms at their temperatures with a heater each, against weather that wanders: 60 steps."""

    STEPS = 60

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._rooms, self._outside, self._steps = np.zeros(2), 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._rooms = self.np_random.uniform(-5.0, 5.0, size=2)
        self._outside, self._steps = float(self.np_random.normal()) * 2.0, 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        heat = np.clip(np.asarray(action, dtype=float).reshape(2), -1.0, 1.0)
        self._outside = 0.95 * self._outside + float(self.np_random.normal())
        self._rooms = self._rooms + 0.1 * (self._outside - self._rooms) + heat
        self._steps += 1
        cost = float(np.sum(self._rooms**2) + 0.1 * np.sum(heat**2))
        return self._observation(), -cost, False, self._steps >= self.STEPS, {}

    def _observation(self) -> Observation:
        return np.array([*self._rooms, self._outside], dtype=np.float32)


class NoisyPointing(Pointing):
    """Pointing whose rewards have noise three times as large as they are."""

    def step(self, action: np.int64) -> Step:
        right = int(action) == self._shown
        seen, reward, terminated, truncated, _ = super().step(action)
        noise = 3.0 * float(self.np_random.normal())
        return seen, reward + noise, terminated, truncated, {"outcome": "hit" if right else "miss"}


class Queue(gymnasium.Env[Observation, np.int64]):
    """Open zero to five counters a minute for customers that come in waves: waiting costs more than staff does."""

    MINUTES = 50

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(6)
        self._waiting = self._minute = 0
        self._wave = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._waiting, self._minute = 0, 0
        self._wave = float(self.np_random.uniform(0.0, 2.0 * np.pi))
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        came = int(self.np_random.poisson(4.0 + 3.0 * np.sin(self._wave + 0.3 * self._minute)))
        served = 2 * int(action)
        self._waiting = min(40, max(0, self._waiting + came - served))
        self._minute += 1
        return self._observation(), -float(5 * int(action) + 3 * self._waiting), False, self._minute >= self.MINUTES, {}

    def _observation(self) -> Observation:
        angle = self._wave + 0.3 * self._minute
        return np.array([self._waiting / 10.0, np.sin(angle), np.cos(angle)], dtype=np.float32)


class Reaching(gymnasium.Env[Observation, Any]):
    """Bend an arm of three joints until its hand is at a point that is shown: each step costs the distance."""

    STEPS = 40

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (8,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self._joints, self._goal, self._steps = np.zeros(3), np.zeros(2), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._joints = self.np_random.uniform(-0.3, 0.3, size=3)
        angle = self.np_random.uniform(-2.0, 2.0)
        self._goal = self.np_random.uniform(0.8, 2.4) * np.array([np.cos(angle), np.sin(angle)])
        self._steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        self._joints = self._joints + 0.2 * np.clip(np.asarray(action, dtype=float).reshape(3), -1.0, 1.0)
        self._steps += 1
        distance = float(np.linalg.norm(self._hand() - self._goal))
        return self._observation(), -distance, False, self._steps >= self.STEPS, {}

    def _hand(self) -> Any:
        bends = np.cumsum(self._joints)
        return np.array([np.sum(np.cos(bends)), np.sum(np.sin(bends))])

    def _observation(self) -> Observation:
        bent = [*np.cos(self._joints), *np.sin(self._joints)]
        return np.array([*bent, *(self._goal - self._hand())], dtype=np.float32)


class NoisyAcrobot(AcrobotEnv):
    """Acrobot whose rewards have noise three times as large as they are."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)  # type: ignore[no-untyped-call]
        return observation, float(reward) + 3.0 * float(self.np_random.normal()), terminated, truncated, info


class Sailing(gymnasium.Env[Observation, Any]):
    """Hold a course with the rudder, in a wind that wanders: a step pays the cosine of the error; 480 steps."""

    STEPS = 480

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._error = self._turning = self._wind = 0.0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._error, self._turning, self._wind = float(self.np_random.uniform(-2.0, 2.0)), 0.0, 0.0
        self._steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        rudder = float(np.clip(np.asarray(action, dtype=float).reshape(1)[0], -1.0, 1.0))
        self._wind = 0.95 * self._wind + 0.3 * float(self.np_random.normal())
        self._turning = 0.8 * self._turning + 0.5 * rudder + 0.25 * self._wind
        self._error = float(np.clip(self._error + 0.3 * self._turning, -np.pi, np.pi))
        self._steps += 1
        return self._observation(), float(np.cos(self._error)), False, self._steps >= self.STEPS, {}

    def _observation(self) -> Observation:
        return np.array([self._error, self._turning, self._wind], dtype=np.float32)


class Signalling(gymnasium.Env[Observation, Any]):
    """Switch the lights of three crossings of two roads each: who waits costs, and a switch loses a turn; 400 steps."""

    STEPS, CROSSINGS, MOST = 400, 3, 12

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (3 * self.CROSSINGS,), np.float32)
        self.action_space = spaces.MultiDiscrete([2] * self.CROSSINGS)
        self._waiting, self._green = np.zeros((self.CROSSINGS, 2), dtype=int), np.zeros(self.CROSSINGS, dtype=int)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._waiting = self.np_random.integers(0, 4, size=(self.CROSSINGS, 2))
        self._green, self._steps = np.zeros(self.CROSSINGS, dtype=int), 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        wanted = np.asarray(action, dtype=int).reshape(self.CROSSINGS)
        for crossing in range(self.CROSSINGS):
            if wanted[crossing] == self._green[crossing]:
                road = self._green[crossing]
                self._waiting[crossing, road] = max(0, self._waiting[crossing, road] - 3)
        self._green = wanted
        came = self.np_random.poisson([0.5, 0.9], size=(self.CROSSINGS, 2))
        self._waiting = np.minimum(self.MOST, self._waiting + came)
        self._steps += 1
        return self._observation(), -float(self._waiting.sum()), False, self._steps >= self.STEPS, {}

    def _observation(self) -> Observation:
        return np.array([*(self._waiting.ravel() / self.MOST), *self._green], dtype=np.float32)


class Smelting(gymnasium.Env[Observation, np.int64]):
    """Heat an oven to a temperature that is shown, at one of seven powers. Each step costs so many times the
    square of what is missing, an episode ten thousands. A hit is an oven that is within 3 degrees at the end.
    """

    def __init__(self, steps: int = 50, price: float = 2.0) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(7)
        self._last, self._price = steps, price
        self._heat = self._wanted = self._draught = 0.0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._heat, self._wanted = 0.0, float(self.np_random.uniform(15.0, 35.0))
        self._draught, self._steps = 0.0, 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        self._draught = 0.9 * self._draught + 0.5 * float(self.np_random.normal())
        self._heat += 1.5 * int(action) - 0.15 * self._heat + self._draught
        self._steps += 1
        missing = self._heat - self._wanted
        ended = self._steps >= self._last
        told = {"outcome": "hit" if abs(missing) < 3.0 else "miss"} if ended else {}
        return self._observation(), -self._price * missing * missing, False, ended, told

    def _observation(self) -> Observation:
        return np.array([self._heat / 20.0, self._wanted / 20.0, self._draught], dtype=np.float32)


class Shipping(gymnasium.Env[Observation, np.int64]):
    """Send none to seven lorries a day for parcels that come in waves: a lorry costs 300, a parcel pays 100, and one
    that waits costs 13 a day. Over 200 that wait the customer leaves, which costs 10,000. A hit is an episode of 60
    days that ends in profit.
    """

    DAYS, MOST = 60, 200

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(8)
        self._waiting = self._day = 0
        self._wave = self._earned = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._waiting, self._day, self._earned = 20, 0, 0.0
        self._wave = float(self.np_random.uniform(0.0, 2.0 * np.pi))
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        came = int(self.np_random.poisson(14.0 + 10.0 * np.sin(self._wave + 0.25 * self._day)))
        sent = min(self._waiting, 5 * int(action))
        self._waiting += came - sent
        self._day += 1
        left = self._waiting > self.MOST
        reward = 100.0 * sent - 300.0 * int(action) - 13.0 * self._waiting - (10000.0 if left else 0.0)
        self._earned += reward
        ended = left or self._day >= self.DAYS
        told = {"outcome": "hit" if self._earned > 0.0 else "miss"} if ended else {}
        return self._observation(), reward, left, not left and ended, told

    def _observation(self) -> Observation:
        angle = self._wave + 0.25 * self._day
        return np.array([self._waiting / 50.0, np.sin(angle), np.cos(angle)], dtype=np.float32)


for _world in (
    Heating,
    NoisyAcrobot,
    NoisyPointing,
    Pricing,
    Queue,
    Reaching,
    Sailing,
    Shipping,
    Signalling,
    Smelting,
):
    gymnasium.register(
        f"{_world.__name__}-v0",
        entry_point=f"{__name__}:{_world.__name__}",
        max_episode_steps=500 if _world is NoisyAcrobot else None,
    )
