"""What the scale of rewards has to do with a value function in trouble, and the assignments that set it right."""

from __future__ import annotations

import math

from mission_tui.fleet.health.phrases import rounded
from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.settings import Settings

__all__ = ["is_large", "normalized_rewards", "reward_scale_sentence", "value_error_of"]

LARGE_ERROR = 1.0
"""Values that miss by more than this have a loss above 1, which outweighs that of the policy."""


def value_error_of(row: Row) -> float | None:
    """Root of the value loss: by how much values miss returns, in units of the rewards that are trained on."""
    loss = row.metrics.get("train/value_loss")
    return math.sqrt(loss) if loss is not None and 0.0 <= loss < math.inf else None


def is_large(row: Row, settings: Settings) -> bool:
    """Whether rewards are too large as they are: not known to be normalised, and values miss by more than a unit."""
    error = value_error_of(row)
    return error is not None and error > LARGE_ERROR and settings.normalize_reward is not True


def reward_scale_sentence(row: Row, settings: Settings) -> str:
    """By how much values miss, and whether rewards are normalised; "" when neither is known."""
    error = value_error_of(row)
    how = {True: "rewards are normalised", False: "rewards are not normalised", None: ""}[settings.normalize_reward]
    missed = f"values miss returns by about {rounded(error)} (root of the value loss)" if error is not None else ""
    return ", and ".join(part for part in (missed, how) if part)


def normalized_rewards(settings: Settings) -> tuple[str, ...]:
    """The assignment that normalises rewards; none when they are, or when it is not known."""
    if settings.normalize_reward is not False:
        return ()
    return ("env.normalize.reward=true",) if settings.normalize_obs else ("env.normalize=true",)
