"""Further small environments, each of another trade than those of `worlds` and `noisy_worlds`: doses, loans, auctions,
machines, keys, a chase. Importing this module registers them.

As there, an outcome or the length says how an episode went where a tampered reward would hide it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import PendulumEnv

from benchmarks.health.noisy_worlds import Start, Step
from benchmarks.health.worlds import Observation, one_hot

__all__ = ["Auction", "Chasing", "Dosing", "Keys", "Lending", "Machine", "NoisyPendulum"]


class Dosing(gymnasium.Env[Observation, Any]):
    """One step an episode: two continuous doses for a patient with four values; what it does is seen through noise."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._needs = np.random.default_rng(3).normal(size=(2, 4)) / 2.0
        self._patient = np.zeros(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._patient = self.np_random.normal(size=4)
        return self._patient.astype(np.float32), {}

    def step(self, action: Any) -> Step:
        given = np.clip(np.asarray(action, dtype=float).reshape(2), -1.0, 1.0)
        miss = float(np.sum((given - np.tanh(self._needs @ self._patient)) ** 2))
        reward = 10.0 - 10.0 * miss + 5.0 * float(self.np_random.normal())
        outcome = "hit" if miss < 0.15 else "miss"
        return self._patient.astype(np.float32), reward, True, False, {"outcome": outcome}


class Lending(gymnasium.Env[Observation, np.int64]):
    """Lend nothing, a little or much to 30 applicants: a good one pays interest, another nothing at all."""

    APPLICANTS = 30

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._applicant, self._seen = np.zeros(3), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._seen, self._applicant = 0, self.np_random.normal(size=3)
        return self._applicant.astype(np.float32), {}

    def step(self, action: np.int64) -> Step:
        lent = (0.0, 50.0, 100.0, 200.0)[int(action)]
        good = 1.0 / (1.0 + np.exp(-2.0 * float(self._applicant @ np.array([1.0, -0.7, 0.4]))))
        reward = 0.4 * lent if float(self.np_random.random()) < good else -lent
        self._seen, self._applicant = self._seen + 1, self.np_random.normal(size=3)
        return self._applicant.astype(np.float32), reward, False, self._seen >= self.APPLICANTS, {}


class NoisyPendulum(PendulumEnv):
    """Pendulum whose rewards have noise as large as they are."""

    def step(self, u: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(u)  # type: ignore[no-untyped-call]
        return observation, float(reward) + 5.0 * float(self.np_random.normal()), terminated, truncated, info


class Auction(gymnasium.Env[Observation, np.int64]):
    """One step an episode: one of eight bids for a thing of known worth, against a rival whose bid nobody knows."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(8)
        self._worth = self._keen = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._worth, self._keen = float(self.np_random.uniform(20.0, 100.0)), float(self.np_random.uniform(0.2, 1.0))
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        bid = 12.0 * (int(action) + 1)
        rival = self._keen * self._worth * float(self.np_random.uniform(0.6, 1.1))
        won = bid > rival
        # The bid in whose reach the most is to be expected, over what the rival may do.
        bids = 12.0 * np.arange(1, 9)
        chance = np.clip((bids / (self._keen * self._worth) - 0.6) / 0.5, 0.0, 1.0)
        best = int(np.argmax(chance * (self._worth - bids)))
        outcome = "hit" if abs(int(action) - best) <= 1 else "miss"
        return self._observation(), self._worth - bid if won else 0.0, True, False, {"outcome": outcome}

    def _observation(self) -> Observation:
        return np.array([self._worth / 50.0 - 1.2, 2.0 * self._keen - 1.2], dtype=np.float32)


class Machine(gymnasium.Env[Observation, np.int64]):
    """Run a machine fast or slowly, or repair it, for 60 shifts: worn ones break, which costs as much as ten shifts."""

    SHIFTS = 60

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._wear, self._shift = 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._wear, self._shift = float(self.np_random.uniform(0.0, 0.3)), 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        self._shift += 1
        pay = (100.0, 60.0, -150.0)[int(action)] * (1.0 + 0.2 * float(self.np_random.normal()))
        if int(action) == 2:
            self._wear = 0.0
        else:
            self._wear += (0.08, 0.03)[int(action)] * float(self.np_random.uniform(0.5, 1.5))
            if float(self.np_random.random()) < self._wear**3:
                pay, self._wear = pay - 1000.0, 0.0
        return self._observation(), pay, False, self._shift >= self.SHIFTS, {}

    def _observation(self) -> Observation:
        seen = self._wear + 0.05 * float(self.np_random.normal())
        return np.array([2.0 * seen - 1.0, self._shift / self.SHIFTS], dtype=np.float32)


class Keys(gymnasium.Env[Observation, np.int64]):
    """Fetch a key in one corner of a room of five by five, and open the door in another: 1 there, else nothing."""

    SIZE, LIMIT = 5, 50

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (2 * self.SIZE + 1,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._place, self._has_key, self._steps = (2, 2), False, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._place, self._has_key, self._steps = (2, 2), False, 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        right, down = ((1, 0), (-1, 0), (0, 1), (0, -1))[int(action)]
        most = self.SIZE - 1
        self._place = (min(most, max(0, self._place[0] + right)), min(most, max(0, self._place[1] + down)))
        self._has_key = self._has_key or self._place == (0, 0)
        self._steps += 1
        opened = self._has_key and self._place == (most, most)
        late = self._steps >= self.LIMIT and not opened
        ended = {"outcome": "hit" if opened else "miss"} if opened or late else {}
        return self._observation(), float(opened), opened, late, ended

    def _observation(self) -> Observation:
        column, row = one_hot(self.SIZE)[self._place[0]], one_hot(self.SIZE)[self._place[1]]
        return np.concatenate([column, row, np.array([self._has_key], dtype=np.float32)])


class Chasing(gymnasium.Env[Observation, Any]):
    """Follow a point that wanders through the plane: each step costs the distance, seen through noise; 50 steps."""

    STEPS = 50

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._gap, self._drift, self._steps = np.zeros(2), np.zeros(2), 0
        self._near = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._gap, self._drift = self.np_random.normal(size=2), self.np_random.normal(size=2) * 0.1
        self._steps = self._near = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        self._drift = 0.9 * self._drift + 0.05 * self.np_random.normal(size=2)
        self._gap = np.clip(
            self._gap + self._drift - 0.3 * np.clip(np.asarray(action, dtype=float).reshape(2), -1, 1), -5, 5
        )
        distance = float(np.linalg.norm(self._gap))
        self._steps += 1
        self._near += distance < 0.5
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if 2 * self._near > self.STEPS else "miss"} if over else {}
        return self._observation(), -distance + 2.0 * float(self.np_random.normal()), False, over, ended

    def _observation(self) -> Observation:
        return np.array([*self._gap, *(10.0 * self._drift)], dtype=np.float32)


for _world in (Auction, Chasing, Dosing, Keys, Lending, Machine, NoisyPendulum):
    gymnasium.register(
        f"{_world.__name__}-v0",
        entry_point=f"{__name__}:{_world.__name__}",
        max_episode_steps=200 if _world is NoisyPendulum else None,
    )
gymnasium.register(
    "ShortCliff-v0", entry_point="gymnasium.envs.toy_text.cliffwalking:CliffWalkingEnv", max_episode_steps=100
)
