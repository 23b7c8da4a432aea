"""Environments that allow some actions only and raise at any other; importing this registers them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mission_tui.envs.state import generator_from_words, generator_words
from tests.trainer.probe_envs import Walk


class Doors(Walk):
    """One of five doors, of which some are open; the leftmost pays. Every other episode runs out of time."""

    action_space: spaces.Space[Any] = spaces.Discrete(5)

    def __init__(self) -> None:
        super().__init__()
        self.open: NDArray[np.bool_] = np.ones(self._entries(), dtype=bool)
        self.episodes = 0

    def action_masks(self) -> Any:
        return self.open

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        chosen = self._places(action)
        if not self.open[chosen].all():
            raise ValueError(f"action {action} is not allowed")
        reward = float((chosen == self._leftmost()).mean())
        observation, _, over, _, info = super().step(action)
        self.episodes += over
        cut = over and self.episodes % 2 == 0
        return observation, reward, over and not cut, cut, info

    def get_state(self) -> dict[str, Any]:
        kept = {"open": self.open.copy(), "steps": self.steps, "episodes": self.episodes}
        return kept | {"np_random": generator_words(self.np_random)}

    def set_state(self, state: dict[str, Any]) -> None:
        self.open, self.steps, self.episodes = state["open"].copy(), state["steps"], state["episodes"]
        self.np_random = generator_from_words(state["np_random"])

    def _observe(self) -> Any:
        self._open_some()
        seen = np.zeros(3, dtype=np.float32)
        seen[0] = 1.0 if self.open[0] else -1.0
        return seen

    def _open_some(self) -> None:
        for start, size in zip(self._starts(), self._sizes(), strict=True):
            part = self.np_random.random(size) < 0.4
            part[self.np_random.integers(size)] = True
            self.open[start : start + size] = part

    def _places(self, action: Any) -> Any:
        return self._starts() + np.atleast_1d(action)

    def _leftmost(self) -> Any:
        pairs = zip(self._starts(), self._sizes(), strict=True)
        return np.array([start + np.flatnonzero(self.open[start : start + size])[0] for start, size in pairs])

    def _sizes(self) -> list[int]:
        return [5]

    def _starts(self) -> Any:
        return np.cumsum([0, *self._sizes()[:-1]])

    def _entries(self) -> int:
        return sum(self._sizes())


class MultiDoors(Doors):
    """Three heads, one of them without a choice."""

    action_space = spaces.MultiDiscrete([2, 4, 1])

    def _sizes(self) -> list[int]:
        return [2, 4, 1]


class Switches(Doors):
    """Two switches, each of which may be stuck."""

    action_space = spaces.MultiBinary(2)

    def _sizes(self) -> list[int]:
        return [2, 2]


class DictDoors(Doors):
    """A dictionary observation."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict({"a": spaces.Box(-1.0, 1.0, (3,)), "b": spaces.Box(-1.0, 1.0, (2,))})

    def _observe(self) -> Any:
        seen = super()._observe()
        return {"a": seen, "b": seen[:2]}


class WrongDoors(Doors):
    """From step `at` on the mask is of `kind`: too short, allowing nothing, or raised instead of given."""

    def __init__(self, kind: str = "short", at: int = 3) -> None:
        super().__init__()
        self.kind, self.at = kind, at

    def action_masks(self) -> Any:
        if self.steps < self.at:
            return self.open
        match self.kind:
            case "short":
                return self.open[:3]
            case "none":
                return np.zeros(5, dtype=bool)
            case _:
                raise LookupError("the keys are gone")


for probe in (Doors, MultiDoors, Switches, DictDoors, WrongDoors):
    gymnasium.register(id=f"{probe.__name__}-v0", entry_point=f"{__name__}:{probe.__name__}")
