"""Action masks as sb3-contrib asks environments for them: what a mask has entries for, and actions that one allows; and
the mask of the lanes that a vector environment of Gymnasium is to reset.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    """An action by chance, of those that `mask`, shape (choices,), allows; drawn from the generator of `actions`, which
    are discrete.
    """
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


def reset_mask(options: Mapping[str, Any], lanes: int) -> NDArray[np.bool_]:
    """Which of so many `lanes` a reset with these `options` is for. Raises `ValueError` for what is no mask of them."""
    mask = np.asarray(options.get("reset_mask", np.ones(lanes, dtype=np.bool_)))
    if mask.shape != (lanes,) or mask.dtype != np.bool_ or not mask.any():
        raise ValueError(
            f"options['reset_mask'] must hold {lanes} booleans, at least one of them true, found "
            f"{mask.dtype} of shape {mask.shape}"
        )
    return mask
