"""Scripted attackers for tests: a mixture of the seeker that walks round walls and of chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.presets.ends import Policy, play, seeker
from mission_tui.envs.core import HEADINGS, MissionCore

__all__ = ["EAST", "HOLD", "NORTH", "SOUTH", "WEST", "Policy", "mixture", "play", "seeker"]

HOLD, NORTH, EAST, SOUTH, WEST = 0, 1, 3, 5, 7


def mixture(rng: np.random.Generator) -> Policy:
    """Random orders in every third lane, else the seeker with a tenth of its orders replaced by random ones."""

    def act(core: MissionCore) -> NDArray[np.int64]:
        orders = seeker(core)
        chance = rng.integers(0, len(HEADINGS), orders.shape)
        replaced = rng.random(orders.shape) < 0.1
        replaced[::3] = True
        return np.where(replaced, chance, orders)

    return act
