"""What one minibatch of PPO yields, whichever engine computed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch as th

__all__ = ["ClipRanges", "Losses"]


class Losses(NamedTuple):
    """The loss to descend, and what it is made of or judged by (detached, on the device).

    `log_ratio`, shape (batch,), is the change of every action's log-probability since the rollout; `heads`, shape
    (heads,), the mean entropy of each of several heads; `ceilings`, alike, the most that it could be where not every
    action was allowed.
    """

    loss: th.Tensor
    policy_gradient: th.Tensor
    value: th.Tensor
    entropy: th.Tensor
    log_ratio: th.Tensor
    heads: th.Tensor | None
    ceilings: th.Tensor | None = None


@dataclass(frozen=True, slots=True)
class ClipRanges:
    """The clip ranges of this update; `value` is None when values are not clipped."""

    policy: float
    value: float | None
