"""Small environments that were written last: plateaus between floors, rare finds, a crane on a short track, a target
that shrinks and drifts while it is shot at, a catalogue of 64 things, a ball that is seen as an image; then workers and
queues, a pole without speeds, parts that are paid for at the end, a craft on two rotors, a herd with long episodes, ore
at large prices, a word that is learned slowly, a wood of which little is seen; then fruits that are graded at a small
rate, a parcel that is paid for when it arrives, a ball on a plate, a power plant with large costs, signals that are
soon known, and what was shown before. Importing this module registers them.

As in `worlds`, an outcome says how an episode went where a tampered reward would hide it.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv

from benchmarks.health.noisy_worlds import Start, Step
from benchmarks.health.worlds import Observation, one_hot

__all__ = [
    "Archery",
    "Assembly",
    "Catalogue",
    "Crane",
    "Delivering",
    "Dispatching",
    "Echoing",
    "Floors",
    "Foraging",
    "Grading",
    "Grazing",
    "Hovering",
    "Mining",
    "Pixels",
    "Prospecting",
    "Rolling",
    "Scheduling",
    "Sightless",
    "Spelling",
    "Switching",
]


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


class Scheduling(gymnasium.Env[Observation, Any]):
    """Three workers are each put to one of three queues, 40 times: one who knows the work does two jobs, another half
    of one. Every job that waits costs a tenth.
    """

    STEPS, GOOD = 40, 130.0
    ARRIVALS = (1.1, 0.9, 0.7)

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.MultiDiscrete([3, 3, 3])
        self._skill = np.array([[0.5, 2.0, 0.5], [0.5, 0.5, 2.0], [2.0, 0.5, 0.5]])
        self._queues, self._waited, self._steps = np.zeros(3), 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._queues = self.np_random.integers(4, size=3).astype(float)
        self._waited, self._steps = 0.0, 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        for worker, queue in enumerate(np.asarray(action).reshape(3)):
            self._queues[queue] = max(0.0, self._queues[queue] - self._skill[worker, queue])
        self._queues = np.minimum(15.0, self._queues + self.np_random.poisson(self.ARRIVALS))
        waiting = float(self._queues.sum())
        self._waited += waiting
        self._steps += 1
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._waited < self.GOOD else "miss"} if over else {}
        return self._observation(), -waiting / 10.0, False, over, ended

    def _observation(self) -> Observation:
        return np.array([*(self._queues / 5.0), self._steps / self.STEPS], dtype=np.float32)


class Sightless(CartPoleEnv):
    """CartPole that shows where cart and pole are, and not how fast they move."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        observation, info = super().reset(seed=seed, options=options)
        return self._without_speeds(observation), info

    def step(self, action: Any) -> Step:
        observation, reward, terminated, truncated, info = super().step(action)  # type: ignore[no-untyped-call]
        return self._without_speeds(observation), float(reward), terminated, truncated, info

    def _without_speeds(self, observation: Any) -> Observation:
        return np.array([observation[0], 0.0, 5.0 * observation[2], 0.0], dtype=np.float32)


class Assembly(gymnasium.Env[Observation, np.int64]):
    """Put twelve parts into one of five bins each; what is right is paid for at the end alone, all at once."""

    PARTS = 12

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float32)
        self.action_space = spaces.Discrete(5)
        self._bins = np.random.default_rng(11).normal(size=(5, 4))
        self._part, self._seen, self._right = np.zeros(4), 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._seen = self._right = 0
        return self._next(), {}

    def step(self, action: np.int64) -> Step:
        self._right += int(action) == int(np.argmax(self._bins @ self._part))
        self._seen += 1
        over = self._seen >= self.PARTS
        ended = {"outcome": "hit" if 4 * self._right >= 3 * self.PARTS else "miss"} if over else {}
        return self._next(), float(self._right) if over else 0.0, over, False, ended

    def _next(self) -> Observation:
        self._part = self.np_random.normal(size=4)
        return np.array([*self._part, self._seen / self.PARTS], dtype=np.float32)


class Hovering(gymnasium.Env[Observation, Any]):
    """Bring a small craft with two rotors to its mark and keep it there, 80 steps; tilting over or leaving ends it. It
    tells millimetres and degrees, which only a normaliser makes alike.
    """

    STEPS, DT = 80, 0.05

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (6,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._place, self._speed = np.zeros(2), np.zeros(2)
        self._tilt = self._spin = 0.0
        self._steps = self._near = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._place, self._speed = self.np_random.uniform(-1.0, 1.0, size=2), np.zeros(2)
        self._tilt = self._spin = 0.0
        self._steps = self._near = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        left, right = np.clip(np.asarray(action, dtype=float).reshape(2), -1.0, 1.0)
        lift = 4.0 + 3.0 * (left + right) / 2.0
        self._spin = 0.9 * self._spin + 0.25 * float(right - left)
        self._tilt += self.DT * self._spin
        pull = np.array([-lift * np.sin(self._tilt), lift * np.cos(self._tilt) - 4.0])
        self._speed = 0.97 * self._speed + self.DT * pull
        self._place = self._place + self.DT * self._speed
        away = float(np.linalg.norm(self._place))
        self._steps += 1
        self._near += away < 0.5
        lost = abs(self._tilt) > 1.0 or away > 2.5
        over = lost or self._steps >= self.STEPS
        ended = {"outcome": "hit" if 2 * self._near > self.STEPS else "miss"} if over else {}
        return self._observation(), 1.0 - away, lost, over and not lost, ended

    def _observation(self) -> Observation:
        angles = np.degrees([self._tilt, self._spin])
        return np.concatenate([1000.0 * self._place, 1000.0 * self._speed, angles]).astype(np.float32)


class Grazing(gymnasium.Env[Observation, np.int64]):
    """Lead a herd around five meadows for 600 steps: it eats a part of the grass where it stands, which comes back the
    slower the less is left, and each at its own pace.
    """

    STEPS, GOOD = 600, 56.0
    PACE = (0.03, 0.12, 0.05, 0.15, 0.08)

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (10,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._grass, self._meadow, self._steps, self._eaten = np.zeros(5), 0, 0, 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._grass = self.np_random.uniform(0.3, 1.0, size=5)
        self._meadow, self._steps, self._eaten = int(self.np_random.integers(5)), 0, 0.0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        self._meadow = (self._meadow + int(action) - 1) % 5
        eaten = 0.3 * float(self._grass[self._meadow]) if int(action) == 1 else 0.0
        self._grass[self._meadow] -= eaten
        self._grass += np.array(self.PACE) * (self._grass + 0.02) * (1.0 - self._grass)
        self._eaten += eaten
        self._steps += 1
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._eaten > self.GOOD else "miss"} if over else {}
        return self._observation(), eaten, False, over, ended

    def _observation(self) -> Observation:
        return np.concatenate([self._grass.astype(np.float32), one_hot(5)[self._meadow]])


class Mining(gymnasium.Env[Observation, np.int64]):
    """Dig in one of four shafts or mend the machine, 25 times: ore pays up to three hundred, the less the more
    the machine is worn.
    """

    SHIFTS, GOOD = 25, 2_600.0

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float32)
        self.action_space = spaces.Discrete(5)
        self._ore, self._wear, self._shifts, self._paid = np.zeros(4), 0.0, 0, 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._ore, self._wear, self._shifts, self._paid = self.np_random.uniform(0.2, 1.0, size=4), 0.0, 0, 0.0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        shaft, pay = int(action), -30.0
        if shaft == 4:
            self._wear = 0.0
        else:
            pay += 300.0 * float(self._ore[shaft]) * (1.0 - self._wear)
            self._ore[shaft] *= 0.6
            self._wear = min(0.9, self._wear + 0.15)
        self._ore = np.minimum(1.0, self._ore + self.np_random.uniform(0.0, 0.15, size=4))
        self._paid += pay
        self._shifts += 1
        over = self._shifts >= self.SHIFTS
        ended = {"outcome": "hit" if self._paid > self.GOOD else "miss"} if over else {}
        return self._observation(), pay, False, over, ended

    def _observation(self) -> Observation:
        return np.array([*self._ore, self._wear], dtype=np.float32)


class Spelling(gymnasium.Env[Observation, np.int64]):
    """Spell a word of twelve letters out of eight: a right one pays 1 and is followed by the next, every step costs a
    tenth, and a hundred steps are the limit.
    """

    LETTERS, LIMIT = 12, 100

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (self.LETTERS,), np.float32)
        self.action_space = spaces.Discrete(8)
        self._word = np.random.default_rng(4).integers(8, size=self.LETTERS)
        self._at = self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._at = self._steps = 0
        return one_hot(self.LETTERS)[0], {}

    def step(self, action: np.int64) -> Step:
        right = int(action) == self._word[self._at]
        self._at += right
        self._steps += 1
        done, late = self._at == self.LETTERS, self._steps >= self.LIMIT
        return one_hot(self.LETTERS)[self._at % self.LETTERS], float(right) - 0.1, bool(done), late and not done, {}


class Foraging(gymnasium.Env[Observation, np.int64]):
    """Gather mushrooms and no toadstools in a wood of 9 x 9, of which two squares around are seen; 40 steps."""

    SIDE, SIGHT, STEPS, EACH = 9, 2, 40, 9

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (2 * (2 * self.SIGHT + 1) ** 2,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._wood, self._at, self._steps, self._gathered = np.zeros((2, 0, 0), np.float32), (0, 0), 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        wood = np.zeros((2, self.SIDE * self.SIDE), np.float32)
        squares = self.np_random.permutation(self.SIDE * self.SIDE)[: 2 * self.EACH]
        wood[0, squares[: self.EACH]] = wood[1, squares[self.EACH :]] = 1.0
        self._wood = wood.reshape(2, self.SIDE, self.SIDE)
        self._at, self._steps, self._gathered = (self.SIDE // 2, self.SIDE // 2), 0, 0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        down, right = ((0, 1), (1, 0), (0, -1), (-1, 0))[int(action)]
        self._at = (self._at[0] + down) % self.SIDE, (self._at[1] + right) % self.SIDE
        found = self._wood[:, self._at[0], self._at[1]]
        reward = float(found[0] - found[1])
        self._gathered += int(reward)
        found[:] = 0.0
        self._steps += 1
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if self._gathered >= 7 else "miss"} if over else {}
        return self._observation(), reward, False, over, ended

    def _observation(self) -> Observation:
        around = [(self._at[0] + offset) % self.SIDE for offset in range(-self.SIGHT, self.SIGHT + 1)]
        beside = [(self._at[1] + offset) % self.SIDE for offset in range(-self.SIGHT, self.SIGHT + 1)]
        return self._wood[:, around][:, :, beside].reshape(-1)


class Grading(gymnasium.Env[Observation, np.int64]):
    """Grade twenty fruits by six measurements into one of five classes: the right one pays 1, the one beside it 0.3."""

    FRUITS, CLASSES = 20, 5

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (6,), np.float32)
        self.action_space = spaces.Discrete(self.CLASSES)
        self._weights = np.random.default_rng(17).normal(size=6) / np.sqrt(6.0)
        self._fruit, self._seen, self._right = np.zeros(6), 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._seen = self._right = 0
        self._fruit = self.np_random.normal(size=6)
        return self._fruit.astype(np.float32), {}

    def step(self, action: np.int64) -> Step:
        grade = int(np.searchsorted([-0.8, -0.25, 0.25, 0.8], float(self._weights @ self._fruit)))
        off = abs(int(action) - grade)
        self._right += off == 0
        self._seen += 1
        self._fruit = self.np_random.normal(size=6)
        over = self._seen >= self.FRUITS
        ended = {"outcome": "hit" if 2 * self._right >= self.FRUITS else "miss"} if over else {}
        return self._fruit.astype(np.float32), (1.0, 0.3)[off] if off < 2 else 0.0, False, over, ended


class Delivering(gymnasium.Env[Observation, np.int64]):
    """Fetch a parcel from one corner of 5 x 5 squares and bring it to the opposite one, within 40 steps: only then is
    something paid.
    """

    SIDE, LIMIT = 5, 40

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (2 * self.SIDE + 1,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._row = self._column = self._steps = 0
        self._carries = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._row, self._column = self.SIDE - 1, 0
        self._steps, self._carries = 0, False
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        down, right = ((0, 1), (1, 0), (0, -1), (-1, 0))[int(action)]
        self._row = min(self.SIDE - 1, max(0, self._row + down))
        self._column = min(self.SIDE - 1, max(0, self._column + right))
        self._carries = self._carries or (self._row, self._column) == (0, 0)
        self._steps += 1
        there = self._carries and (self._row, self._column) == (self.SIDE - 1, self.SIDE - 1)
        late = self._steps >= self.LIMIT
        ended = {"outcome": "hit" if there else "miss"} if there or late else {}
        return self._observation(), float(there), there, late and not there, ended

    def _observation(self) -> Observation:
        place = [one_hot(self.SIDE)[self._row], one_hot(self.SIDE)[self._column]]
        return np.concatenate([*place, np.array([self._carries], dtype=np.float32)])


class Rolling(gymnasium.Env[Observation, Any]):
    """Roll a ball on a plate that is tilted two ways to a mark and keep it there, 60 steps; it stops at the rim."""

    STEPS = 60

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (8,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._ball, self._speed, self._tilt, self._mark = (np.zeros(2) for _ in range(4))
        self._steps = self._near = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._ball, self._mark = self.np_random.uniform(-0.8, 0.8, size=(2, 2))
        self._speed, self._tilt = np.zeros(2), np.zeros(2)
        self._steps = self._near = 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        wanted = np.clip(np.asarray(action, dtype=float).reshape(2), -1.0, 1.0)
        self._tilt += 0.5 * (wanted - self._tilt)
        self._speed = 0.95 * self._speed + 0.1 * self._tilt + self.np_random.normal(size=2) * 0.01
        self._ball = self._ball + 0.1 * self._speed
        self._speed[np.abs(self._ball) > 1.0] = 0.0
        self._ball = np.clip(self._ball, -1.0, 1.0)
        miss = float(np.linalg.norm(self._ball - self._mark))
        self._steps += 1
        self._near += miss < 0.25
        over = self._steps >= self.STEPS
        ended = {"outcome": "hit" if 2 * self._near > self.STEPS else "miss"} if over else {}
        return self._observation(), -miss, False, over, ended

    def _observation(self) -> Observation:
        return np.concatenate([self._ball, self._speed, self._tilt, self._mark - self._ball]).astype(np.float32)


class Dispatching(gymnasium.Env[Observation, np.int64]):
    """Run a power plant for 48 hours at one of five levels: fuel costs tens, demand that is not met costs
    hundreds, and a change of level is paid for too.
    """

    HOURS, GOOD = 48, -3_000.0

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Discrete(5)
        self._demand = self._paid = 0.0
        self._level = self._hour = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._paid, self._level, self._hour = 0.0, 2, 0
        self._demand = 2.0
        return self._observation(), {}

    def step(self, action: np.int64) -> Step:
        usual = 2.0 + 1.5 * np.sin(2.0 * np.pi * self._hour / 24.0)
        self._demand += 0.5 * (usual - self._demand) + float(self.np_random.normal()) * 0.3
        level = int(action)
        unmet = max(0.0, self._demand - level)
        cost = 15.0 * level + 150.0 * unmet + 5.0 * abs(level - self._level)
        self._level = level
        self._paid -= cost
        self._hour += 1
        over = self._hour >= self.HOURS
        ended = {"outcome": "hit" if self._paid > self.GOOD else "miss"} if over else {}
        return self._observation(), -cost, False, over, ended

    def _observation(self) -> Observation:
        angle = 2.0 * np.pi * self._hour / 24.0
        return np.array([np.sin(angle), np.cos(angle), self._demand - 2.0, self._level - 2.0], dtype=np.float32)


class Switching(gymnasium.Env[Observation, np.int64]):
    """Send each of ten trains to the one of three tracks that its signal names: all that can be had is 10."""

    TRAINS = 10

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (4,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._signal = self._seen = self._right = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._seen = self._right = 0
        return self._next(), {}

    def step(self, action: np.int64) -> Step:
        right = int(action) == (2, 0, 1, 0)[self._signal]
        self._right += right
        self._seen += 1
        over = self._seen >= self.TRAINS
        ended = {"outcome": "hit" if 10 * self._right >= 9 * self.TRAINS else "miss"} if over else {}
        return self._next(), float(right), over, False, ended

    def _next(self) -> Observation:
        self._signal = int(self.np_random.integers(4))
        return one_hot(4)[self._signal]


class Echoing(gymnasium.Env[Observation, Any]):
    """A tone of three and a colour of three are shown, 30 times: wanted is the tone of two steps before, and the colour
    of the step before moved on by as many as that tone, each right one for a half.
    """

    STEPS = 30

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (6,), np.float32)
        self.action_space = spaces.MultiDiscrete([3, 3])
        self._shown: list[Any] = []
        self._right = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self._shown, self._right = [self.np_random.integers(3, size=2) for _ in range(3)], 0
        return self._observation(), {}

    def step(self, action: Any) -> Step:
        tone, colour = np.asarray(action).reshape(2)
        wanted = int(self._shown[-3][0]), int(self._shown[-3][0] + self._shown[-2][1]) % 3
        right = int(tone == wanted[0]) + int(colour == wanted[1])
        self._right += right
        self._shown.append(self.np_random.integers(3, size=2))
        over = len(self._shown) >= self.STEPS + 3
        ended = {"outcome": "hit" if 4 * self._right > 6 * self.STEPS else "miss"} if over else {}
        return self._observation(), right / 2.0, False, over, ended

    def _observation(self) -> Observation:
        tone, colour = self._shown[-1]
        return np.concatenate([one_hot(3)[tone], one_hot(3)[colour]])


for _world in (
    Archery,
    Assembly,
    Catalogue,
    Crane,
    Delivering,
    Dispatching,
    Echoing,
    Floors,
    Foraging,
    Grading,
    Grazing,
    Hovering,
    Mining,
    Pixels,
    Prospecting,
    Rolling,
    Scheduling,
    Spelling,
    Switching,
):
    gymnasium.register(f"{_world.__name__}-v0", entry_point=f"{__name__}:{_world.__name__}")
gymnasium.register("Sightless-v0", entry_point=f"{__name__}:Sightless", max_episode_steps=200)
