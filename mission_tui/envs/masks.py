"""Action masks as sb3-contrib asks environments for them: what a mask has entries for, and actions that one allows."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

MASKS = "action_masks"
"""The method by which an environment, or a wrapper around it, says what is allowed now."""


def choices(actions: spaces.Space[Any]) -> list[int]:
    """How many choices each head of `actions` has, in the order of a mask's entries; none where nothing is chosen."""
    match actions:
        case spaces.Discrete():
            return [int(actions.n)]
        case spaces.MultiDiscrete():
            return [int(n) for n in actions.nvec.ravel()]
        case spaces.MultiBinary():
            return [2] * int(np.prod(actions.shape))
        case _:
            return []


def sampled(actions: spaces.Space[Any], mask: NDArray[np.bool_]) -> Any:
    """An action by chance, of those that `mask` allows, drawn from the generator of discrete `actions`."""
    parts = [part.astype(np.int8) for part in np.split(mask, np.cumsum(choices(actions))[:-1])]
    match actions:
        case spaces.Discrete():
            return actions.sample(parts[0])
        case spaces.MultiDiscrete():
            return actions.sample(tuple(parts))
        case _:
            # Gymnasium's word for a switch that may be either is 2.
            allowed = [2 if part.all() else int(part[1]) for part in parts]
            return actions.sample(np.array(allowed, dtype=np.int8))
