"""Environments that say that they save their state: one that does, and others that are wrong about it in one way each.

The point drifts at random, also where it begins; an episode ends at the edge, or after `LIMIT` steps.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from mission_tui.envs.state import generator_from_words, generator_words

LIMIT = 30
DRIFT = np.random.default_rng(5)


class Honest(gymnasium.Env[Any, Any]):
    """Everything that changes is in its state."""

    observation_space = spaces.Box(-10.0, 10.0, (2,), np.float64)
    action_space = spaces.Discrete(3)

    def __init__(self) -> None:
        self.at, self.age, self.steps_of_all = np.zeros(2), 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Somewhere near the middle."""
        super().reset(seed=seed)
        self.at, self.age = self.draw() * 0.5, 0
        return self.at.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """A step and a gust."""
        self.age += 1
        self.steps_of_all += 1
        self.at += 0.2 * (np.array([action - 1.0, 0.0]) + self.draw())
        far = float(np.abs(self.at).max())
        return self.at.copy(), -far, far > 3.0, self.age >= LIMIT, {"age": self.age}

    def draw(self) -> Any:
        """By chance."""
        return self.np_random.normal(size=2)

    def get_state(self) -> dict[str, Any]:
        """A copy."""
        return {"at": self.at.copy(), "age": self.age, "random": generator_words(self.np_random)}

    def set_state(self, state: dict[str, Any]) -> None:
        """As saved."""
        self.at, self.age = np.array(state["at"]), state["age"]
        self.np_random = generator_from_words(state["random"])


class NoRandom(Honest):
    """Its generator is left out."""

    def get_state(self) -> dict[str, Any]:
        return {name: value for name, value in super().get_state().items() if name != "random"}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state | {"random": generator_words(np.random.default_rng(1))})


class Live(Honest):
    """What it gives goes on changing."""

    def get_state(self) -> dict[str, Any]:
        return super().get_state() | {"at": self.at}


class Deaf(Honest):
    """It takes no state."""

    def set_state(self, state: dict[str, Any]) -> None:
        pass


class Ageless(Honest):
    """How many steps are done is left out."""

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state | {"age": 0})


class FarLimit(Ageless):
    """Likewise, and its limit is so far away that nobody who tries it gets there."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, ended, _, _ = super().step(action)
        return observation, reward, ended, self.age >= 10**9, {}


class FromNumPy(Honest):
    """It draws from NumPy's global generator."""

    def draw(self) -> Any:
        return np.random.normal(size=2)


class FromModule(Honest):
    """It draws from a generator of its module's."""

    def draw(self) -> Any:
        return DRIFT.normal(size=2)


class Objects(Honest):
    """Its state holds what no file does."""

    def get_state(self) -> dict[str, Any]:
        return super().get_state() | {"self": self}


class Raises(Honest):
    """It cannot take its state."""

    def set_state(self, state: dict[str, Any]) -> None:
        raise KeyError("at")


class Token(Honest):
    """Its state is a number, by which this very process finds the rest."""

    kept: ClassVar[dict[int, dict[str, Any]]] = {}

    def get_state(self) -> dict[str, Any]:
        self.kept[self.steps_of_all] = super().get_state()
        return {"kept": self.steps_of_all}

    def set_state(self, state: dict[str, Any]) -> None:
        other = {"at": np.zeros(2), "age": 0, "random": generator_words(np.random.default_rng(1))}
        super().set_state(self.kept.get(state["kept"], other))


class Curriculum(Honest):
    """How many steps there were in all is left out, and after many of them it pays twice."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        return observation, reward * (2.0 if self.steps_of_all > 5_000 else 1.0), *rest


class RareDraw(Honest):
    """It has a second generator, which it draws from once in a long while."""

    def __init__(self) -> None:
        super().__init__()
        self.rare = np.random.default_rng()

    def draw(self) -> Any:
        return super().draw() + (self.rare.normal(size=2) if self.steps_of_all % 100_000 == 99_999 else 0.0)


class Bag(Honest):
    """What was gathered in an episode is left out, and counts when it is much."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = Box()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.bag.things = []
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.bag.things.append(int(action))
        observation, reward, ended, *rest = super().step(action)
        return observation, reward, ended or len(self.bag.things) > 10**6, *rest


class Box:
    """What a bag is."""

    def __init__(self) -> None:
        self.things: list[int] = []


class Draws(Honest):
    """Saving draws from its generator."""

    def get_state(self) -> dict[str, Any]:
        self.draw()
        return super().get_state()


class Noting(Honest):
    """Honest as well: what it notes of the last step is written before it is read."""

    last = 1.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.last = 0.0
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, self.last, *rest = super().step(action)
        return observation, self.last, *rest


class Batch(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Lanes of a point each, all in one array."""

    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}  # noqa: RUF012 - as gymnasium has it

    def __init__(self, num_envs: int = 2) -> None:
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = Honest.observation_space, Honest.action_space
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self.at = np.zeros((num_envs, 2))

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """All in the middle."""
        super().reset(seed=seed[0] if isinstance(seed, list) else seed)
        self.at = self.np_random.normal(size=(self.num_envs, 2)) * 0.5
        return self.at.copy(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """All drift; who is at the edge begins anew."""
        self.at += 0.3 * self.np_random.normal(size=self.at.shape)
        ended = np.abs(self.at).max(axis=1) > 3.0
        final = self.at.copy()
        self.at[ended] = self.np_random.normal(size=(int(ended.sum()), 2)) * 0.5
        return self.at.copy(), np.ones(self.num_envs), ended, np.zeros_like(ended), {"final_obs": final}

    def get_state(self) -> dict[str, Any]:
        """A copy."""
        return {"at": self.at.copy(), "random": generator_words(self.np_random)}

    def set_state(self, state: dict[str, Any]) -> None:
        """As saved."""
        self.at = np.array(state["at"])
        self.np_random = generator_from_words(state["random"])


class ForgetfulBatch(Batch):
    """Its generator begins anew."""

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state | {"random": generator_words(np.random.default_rng(1))})


class TimeLimit(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Of the name of one that is known, and with a memory of its own."""

    _elapsed_steps = 0
    _last = 0.0

    def step(self, action: Any) -> Any:
        """What it shows is smeared."""
        observation, reward, *rest = self.env.step(action)
        self._last = 0.5 * self._last + float(reward)
        return observation, self._last, *rest


SUBTLE = (Token, Curriculum, RareDraw, Bag, Draws)
LIARS = (NoRandom, Live, Deaf, Ageless, FarLimit, FromNumPy, FromModule, Objects, Raises, *SUBTLE)
_HERE = "tests.trainer.stateful_envs"
for cls in (Honest, Noting, *LIARS):
    gymnasium.register(f"State{cls.__name__}-v0", f"{_HERE}:{cls.__name__}")
for name in ("Batch", "ForgetfulBatch"):
    gymnasium.register(f"State{name}-v0", f"{_HERE}:Honest", vector_entry_point=f"{_HERE}:{name}")
