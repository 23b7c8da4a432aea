"""The gradient of PPO's loss with respect to what a policy says of a minibatch."""

from __future__ import annotations

from typing import NamedTuple

import torch as th

__all__ = ["LossGradient", "backprop"]


class LossGradient(NamedTuple):
    """On `values`, shape (batch, 1), `log_prob` and `entropy`, shape (batch,); None where the loss has no entropy."""

    values: th.Tensor
    log_prob: th.Tensor
    entropy: th.Tensor | None = None


def backprop(pairs: list[tuple[th.Tensor, th.Tensor]]) -> None:
    """Hand each output's gradient to autograd, as those of a scalar: told outright, torch would import an algebra."""
    parts = [th.dot(output.flatten(), gradient.flatten()) for output, gradient in pairs]
    th.stack(parts).sum().backward()  # type: ignore[no-untyped-call]
