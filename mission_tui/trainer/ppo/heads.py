"""Action distributions without objects: the operations of `torch.distributions` as SB3's policies use them, unchecked.

Each sample draws the same random numbers in the same order as the distribution it stands for, and each number is the
same bit for bit. What is not finite is found after the rollout and after the update, once instead of at every step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch as th
from stable_baselines3.common.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    MultiCategoricalDistribution,
)
from stable_baselines3.common.policies import ActorCriticPolicy
from torch.nn.functional import binary_cross_entropy_with_logits

__all__ = ["Head", "Judged", "head_of"]

_LOG_SQRT_2PI = math.log(math.sqrt(2 * math.pi))
_UNIT_ENTROPY = 0.5 + 0.5 * math.log(2 * math.pi)


class Judged(NamedTuple):
    """What a policy says of given actions; `heads` and `ceilings` as in `Losses`."""

    log_prob: th.Tensor
    entropy: th.Tensor | None
    heads: th.Tensor | None = None
    ceilings: th.Tensor | None = None


class Head(Protocol):
    """Turns the output of the action net, shape (batch, outputs), into actions and back into probabilities."""

    def sample(self, output: th.Tensor) -> th.Tensor:
        """Actions, shape (batch, ...)."""

    def log_prob(self, output: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """Log-probabilities of `actions`, shape (batch,)."""

    def judge(self, output: th.Tensor, actions: th.Tensor) -> Judged:
        """Log-probabilities and entropies, shape (batch,), of `actions`."""


class _Categorical:
    """One choice; actions have shape (batch,)."""

    def sample(self, output: th.Tensor) -> th.Tensor:
        # logsumexp by its own operations, less those for infinities; then what torch.multinomial does for one sample,
        # less its look at the probabilities.
        top = output.amax(-1, keepdim=True)
        log_sum = (output - top).exp_().sum(-1, keepdim=True).log_().add_(top)
        waits = th.empty_like(output).exponential_(1.0)
        return (output - log_sum).softmax(-1).div_(waits).argmax(-1)

    def log_prob(self, output: th.Tensor, actions: th.Tensor) -> th.Tensor:
        return _chosen(_log_probs(output), actions)

    def judge(self, output: th.Tensor, actions: th.Tensor) -> Judged:
        log_probs = _log_probs(output)
        return Judged(_chosen(log_probs, actions), _entropy(log_probs))


class _MultiCategorical:
    """Several choices; actions have shape (batch, heads)."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = [int(size) for size in sizes]
        self._one = _Categorical()

    def sample(self, output: th.Tensor) -> th.Tensor:
        return th.stack([self._one.sample(part) for part in th.split(output, self._sizes, dim=1)], dim=1)

    def log_prob(self, output: th.Tensor, actions: th.Tensor) -> th.Tensor:
        parts = zip(th.split(output, self._sizes, dim=1), actions.unbind(1), strict=True)
        return th.stack([self._one.log_prob(part, chosen) for part, chosen in parts], dim=1).sum(dim=1)

    def judge(self, output: th.Tensor, actions: th.Tensor) -> Judged:
        parts = zip(th.split(output, self._sizes, dim=1), actions.unbind(1), strict=True)
        log_probs, entropies, *_ = zip(*(self._one.judge(part, chosen) for part, chosen in parts), strict=True)
        entropy = th.stack(entropies, dim=1)
        return Judged(th.stack(log_probs, dim=1).sum(dim=1), entropy.sum(dim=1), entropy.detach().mean(dim=0))


class _Bernoulli:
    """Switches; actions have shape (batch, switches)."""

    def sample(self, output: th.Tensor) -> th.Tensor:
        return th.bernoulli(output.sigmoid())

    def log_prob(self, output: th.Tensor, actions: th.Tensor) -> th.Tensor:
        return -binary_cross_entropy_with_logits(output, actions, reduction="none").sum(dim=1)

    def judge(self, output: th.Tensor, actions: th.Tensor) -> Judged:
        entropy = binary_cross_entropy_with_logits(output, output.sigmoid(), reduction="none")
        return Judged(self.log_prob(output, actions), entropy.sum(dim=1), entropy.detach().mean(dim=0))


class _Gaussian:
    """Independent components around the output; actions have shape (batch, components)."""

    def __init__(self, log_std: th.Tensor) -> None:
        self._log_std = log_std

    def sample(self, output: th.Tensor) -> th.Tensor:
        return output + th.randn_like(output) * self._scale(output)

    def log_prob(self, output: th.Tensor, actions: th.Tensor) -> th.Tensor:
        return self._log_prob(output, self._scale(output), actions)

    def judge(self, output: th.Tensor, actions: th.Tensor) -> Judged:
        scale = self._scale(output)
        return Judged(self._log_prob(output, scale, actions), (_UNIT_ENTROPY + scale.log()).sum(dim=1))

    def _scale(self, output: th.Tensor) -> th.Tensor:
        return th.ones_like(output) * self._log_std.exp()

    def _log_prob(self, mean: th.Tensor, scale: th.Tensor, actions: th.Tensor) -> th.Tensor:
        return (-((actions - mean) ** 2) / (2 * scale**2) - scale.log() - _LOG_SQRT_2PI).sum(dim=1)


def head_of(policy: ActorCriticPolicy) -> Head | None:
    """The head that stands for the policy's own distribution; None where none does (gSDE, foreign ones)."""
    distribution = policy.action_dist
    if type(distribution) is CategoricalDistribution:
        return _Categorical()
    if type(distribution) is MultiCategoricalDistribution:
        return _MultiCategorical(distribution.action_dims)
    if type(distribution) is BernoulliDistribution:
        return _Bernoulli()
    if type(distribution) is DiagGaussianDistribution:
        return _Gaussian(policy.log_std)
    return None


def _chosen(log_probs: th.Tensor, actions: th.Tensor) -> th.Tensor:
    return log_probs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def _log_probs(output: th.Tensor) -> th.Tensor:
    return output - output.logsumexp(dim=-1, keepdim=True)


def _entropy(log_probs: th.Tensor) -> th.Tensor:
    # An impossible action has log-probability -inf and adds nothing.
    return -(log_probs.clamp(min=th.finfo(log_probs.dtype).min) * log_probs.softmax(-1)).sum(-1)
