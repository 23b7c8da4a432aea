"""Action distributions without objects: the operations of `torch.distributions` as SB3's policies use them, unchecked.

Each sample draws the same random numbers in the same order as the distribution it stands for. Log-probabilities and
their gradients are the same bit for bit, entropies up to rounding. What is not finite is found after the rollout and
after the update, once instead of at every step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch as th
from stable_baselines3.common.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    MultiCategoricalDistribution,
)
from stable_baselines3.common.policies import ActorCriticPolicy
from torch.nn.functional import binary_cross_entropy_with_logits

from mission_tui.trainer.ppo.losses import ActionEvaluation, LossGradient
from mission_tui.trainer.ppo.mlp_stack import gradient_of

_LOG_SQRT_2PI = math.log(math.sqrt(2 * math.pi))
_UNIT_ENTROPY = 0.5 + 0.5 * math.log(2 * math.pi)


class Head(Protocol):
    """Turns the output of the action net, shape (batch, outputs), into actions and back into probabilities."""

    def sample(self, output: th.Tensor) -> th.Tensor:
        """Actions, shape (batch, ...)."""

    def log_prob(self, output: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """Log-probabilities of `actions`, shape (batch,)."""

    def evaluate(self, output: th.Tensor, actions: th.Tensor) -> ActionEvaluation:
        """Log-probabilities and entropies, shape (batch,), of `actions`."""

    def gradient(
        self, output: th.Tensor, actions: th.Tensor, evaluation: ActionEvaluation, loss_gradient: LossGradient
    ) -> th.Tensor:
        """What `loss_gradient` on the `evaluation` actions is on the output; gradients of the head's own parameters are
        written.
        """


class _Categorical:
    """One choice; actions have shape (batch,)."""

    def sample(self, output: th.Tensor) -> th.Tensor:
        # torch.multinomial takes the choice with the largest probability / wait; its logarithm needs no probabilities.
        return (output - th.empty_like(output).exponential_(1.0).log_()).argmax(-1)

    def log_prob(self, output: th.Tensor, actions: th.Tensor) -> th.Tensor:
        return _chosen(_log_probs(output), actions)

    def evaluate(self, output: th.Tensor, actions: th.Tensor) -> ActionEvaluation:
        log_probs = _log_probs(output)
        return ActionEvaluation(_chosen(log_probs, actions), _entropy(log_probs), choices=log_probs)

    def gradient(
        self, output: th.Tensor, actions: th.Tensor, evaluation: ActionEvaluation, loss_gradient: LossGradient
    ) -> th.Tensor:
        """With p the probabilities: log p(a) rises with [a] - p, and the entropy with -p (log p + entropy)."""
        assert evaluation.choices is not None
        log_probs, to_log_prob = evaluation.choices, loss_gradient.log_prob.unsqueeze(-1)
        probs = log_probs.exp()
        gradient = (probs * -to_log_prob).scatter_add_(-1, actions.unsqueeze(-1), to_log_prob)
        if loss_gradient.entropy is not None:
            surprise = log_probs + _entropy(log_probs).unsqueeze(-1)
            gradient.sub_(probs.mul_(surprise).mul_(loss_gradient.entropy.unsqueeze(-1)))
        return gradient


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

    def evaluate(self, output: th.Tensor, actions: th.Tensor) -> ActionEvaluation:
        choices = [_log_probs(part) for part in th.split(output, self._sizes, dim=1)]
        parts = zip(choices, actions.unbind(1), strict=True)
        log_prob = th.stack([_chosen(log_probs, chosen) for log_probs, chosen in parts], dim=1).sum(dim=1)
        entropy = th.stack([_entropy(log_probs) for log_probs in choices], dim=1)
        return ActionEvaluation(
            log_prob, entropy.sum(dim=1), entropy.detach().mean(dim=0), choices=th.cat(choices, dim=1)
        )

    def gradient(
        self, output: th.Tensor, actions: th.Tensor, evaluation: ActionEvaluation, loss_gradient: LossGradient
    ) -> th.Tensor:
        assert evaluation.choices is not None
        parts = zip(th.split(evaluation.choices, self._sizes, dim=1), actions.unbind(1), strict=True)
        each = [
            self._one.gradient(output, chosen, evaluation._replace(choices=part), loss_gradient)
            for part, chosen in parts
        ]
        return th.cat(each, dim=1)


class _Bernoulli:
    """Switches; actions have shape (batch, switches)."""

    def sample(self, output: th.Tensor) -> th.Tensor:
        return th.bernoulli(output.sigmoid())

    def log_prob(self, output: th.Tensor, actions: th.Tensor) -> th.Tensor:
        return -binary_cross_entropy_with_logits(output, actions, reduction="none").sum(dim=1)

    def evaluate(self, output: th.Tensor, actions: th.Tensor) -> ActionEvaluation:
        entropy = binary_cross_entropy_with_logits(output, output.sigmoid(), reduction="none")
        return ActionEvaluation(self.log_prob(output, actions), entropy.sum(dim=1), entropy.detach().mean(dim=0))

    def gradient(
        self, output: th.Tensor, actions: th.Tensor, evaluation: ActionEvaluation, loss_gradient: LossGradient
    ) -> th.Tensor:
        """With p the probability of on: log p(a) rises with a - p, and the entropy with -output p (1 - p)."""
        prob = output.sigmoid()
        gradient = (actions - prob).mul_(loss_gradient.log_prob.unsqueeze(-1))
        if loss_gradient.entropy is not None:
            gradient.sub_(output * prob * (1 - prob) * loss_gradient.entropy.unsqueeze(-1))
        return gradient


class _Gaussian:
    """Independent components around the output; actions have shape (batch, components)."""

    def __init__(self, log_std: th.Tensor) -> None:
        self._log_std = log_std

    def sample(self, output: th.Tensor) -> th.Tensor:
        return output + th.randn_like(output) * self._scale(output)

    def log_prob(self, output: th.Tensor, actions: th.Tensor) -> th.Tensor:
        return self._log_prob(output, self._scale(output), actions)

    def evaluate(self, output: th.Tensor, actions: th.Tensor) -> ActionEvaluation:
        scale = self._scale(output)
        return ActionEvaluation(self._log_prob(output, scale, actions), (_UNIT_ENTROPY + scale.log()).sum(dim=1))

    def gradient(
        self, output: th.Tensor, actions: th.Tensor, evaluation: ActionEvaluation, loss_gradient: LossGradient
    ) -> th.Tensor:
        """With s the scale and d the distance: log p(a) rises with d / s^2 in the mean and d^2 / s^3 - 1 / s in s."""
        scale, distance, to_log_prob = self._scale(output), actions - output, loss_gradient.log_prob.unsqueeze(-1)
        spread = 2 * scale**2
        # The formulas in autograd's steps, which round alike.
        to_scale = to_log_prob / -scale
        if loss_gradient.entropy is not None:
            to_scale += loss_gradient.entropy.unsqueeze(-1) / scale
        to_scale += to_log_prob * (distance**2 / spread / spread) * 4 * scale
        gradient_of(self._log_std).copy_(to_scale.sum(0) * self._log_std.exp())
        return to_log_prob / spread * (2 * distance)

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
    # Not their softmax: with few choices torch takes twenty times as long for it. A finite output leaves no choice
    # impossible, so there is no -inf to hold.
    return -(log_probs * log_probs.exp()).sum(-1)
