"""The policy's networks and action distributions for the fast engine, without autograd and without objects.

A stack of linear layers writes into memory it already has, forwards and backwards: autograd allocates every activation
and every gradient anew, and beyond a few hundred rows that costs as much as computing them. The operations, and the
layout of their operands, are those autograd would have chosen; a quick stack on a CPU replaces two of them by others
that are right to the last bit or two.

The heads are the operations of `torch.distributions` as SB3's policies use them, unchecked. Each sample draws the same
random numbers in the same order as the distribution it stands for. Log-probabilities and their gradients are the same
bit for bit, entropies up to rounding. What is not finite is found after the rollout and after the update, once instead
of at every step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
import torch as th
from stable_baselines3.common import distributions
from stable_baselines3.common.policies import ActorCriticPolicy
from torch.nn.functional import binary_cross_entropy_with_logits

from mission_tui.trainer.ppo.losses import ActionEvaluation, LossGradient

Activation = Literal["tanh", "relu"] | None

_NARROW, _LONG = 32, 256
"""Below so many features, from so many rows on, MKL multiplies `features.T @ gradient` up to 8 times as fast as its
transpose; it sums up to 8 features in another order then.
"""

_LOG_SQRT_2PI = math.log(math.sqrt(2 * math.pi))
_UNIT_ENTROPY = 0.5 + 0.5 * math.log(2 * math.pi)


class Layer(NamedTuple):
    """A linear layer and what its outputs go through."""

    module: th.nn.Linear
    activation: Activation


class MlpStack:
    """Maps (batch, features) to (batch, outputs). What it returns is overwritten by its next call of the same batch."""

    def __init__(self, layers: list[Layer], *, quick: bool) -> None:
        self.layers = layers
        # Detached: whether gradients are recorded need not be asked, nor switched off, at every call.
        self._weights = [layer.module.weight.detach() for layer in layers]
        self._transposed = [weight.t() for weight in self._weights]
        self._biases = [layer.module.bias.detach() for layer in layers]
        self._outputs: dict[int, list[th.Tensor]] = {}
        self._gradients: dict[int, list[th.Tensor]] = {}
        self.device = self._weights[0].device
        self._quick = quick and self.device.type == "cpu"

    def forward(self, features: th.Tensor) -> th.Tensor:
        """Outputs, shape (batch, outputs), outside of autograd."""
        batch, rooms = features, self._rooms(self._outputs, features)
        for layer, bias, weight, room in zip(self.layers, self._biases, self._transposed, rooms, strict=True):
            batch = th.addmm(bias, batch, weight, out=room)
            if layer.activation == "tanh":
                self._squash(batch)
            elif layer.activation == "relu":
                batch.relu_()
        return batch

    def backward(self, gradient: th.Tensor, features: th.Tensor) -> None:
        """Write every parameter's gradient, given that of the outputs, shape (batch, outputs), of the last call with so
        many rows, which was of `features`.
        """
        outputs, rooms = self._rooms(self._outputs, features), self._rooms(self._gradients, features)
        for index in reversed(range(len(self.layers))):
            layer, output = self.layers[index], outputs[index]
            if layer.activation == "tanh":
                th.ops.aten.tanh_backward.grad_input(gradient, output, grad_input=gradient)
            elif layer.activation == "relu":
                th.ops.aten.threshold_backward.grad_input(gradient, output, 0, grad_input=gradient)
            below = outputs[index - 1] if index else features
            self._weigh(gradient, below, gradient_of(layer.module.weight))
            th.sum(gradient, 0, out=gradient_of(layer.module.bias))
            if index:
                gradient = th.mm(gradient, self._weights[index], out=rooms[index - 1])

    def _squash(self, batch: th.Tensor) -> None:
        if self._quick:
            # NumPy's tanh takes a seventh of the time of torch's, which is right to half a unit in the last place.
            array = batch.numpy()
            np.tanh(array, out=array)
        else:
            batch.tanh_()

    def _weigh(self, gradient: th.Tensor, below: th.Tensor, room: th.Tensor) -> None:
        """Write the gradient of a layer's weight."""
        rows, features = below.shape
        if self._quick and rows >= _LONG and features < min(_NARROW, gradient.shape[1]):
            room.copy_(th.mm(below.t(), gradient).t())
        else:
            th.mm(gradient.t(), below, out=room)

    def _rooms(self, kept: dict[int, list[th.Tensor]], features: th.Tensor) -> list[th.Tensor]:
        size = len(features)
        if size not in kept:
            kept[size] = [features.new_empty((size, layer.module.out_features)) for layer in self.layers]
        return kept[size]


def mlp_stack_of(modules: Iterable[th.nn.Module], *, quick: bool) -> MlpStack | None:
    """The stack of `modules`; None if there is anything but biased linear layers, tanh and ReLU among them.

    A `quick` one rounds some numbers otherwise than torch, and as well.
    """
    layers: list[Layer] = []
    for module in modules:
        if type(module) is th.nn.Linear and module.bias is not None:
            layers.append(Layer(module, None))
        elif type(module) in (th.nn.Tanh, th.nn.ReLU) and layers and layers[-1].activation is None:
            layers[-1] = Layer(layers[-1].module, "tanh" if type(module) is th.nn.Tanh else "relu")
        else:
            return None
    return MlpStack(layers, quick=quick) if layers else None


def gradient_of(parameter: th.Tensor) -> th.Tensor:
    """Where the gradient of `parameter` is written."""
    if parameter.grad is None:
        parameter.grad = th.empty_like(parameter)
    return parameter.grad


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
        """What `loss_gradient` on the `evaluation` of `actions` is on the output, in its shape; gradients of the head's
        own parameters are written.
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
    if type(distribution) is distributions.CategoricalDistribution:
        return _Categorical()
    if type(distribution) is distributions.MultiCategoricalDistribution:
        return _MultiCategorical(distribution.action_dims)
    if type(distribution) is distributions.BernoulliDistribution:
        return _Bernoulli()
    if type(distribution) is distributions.DiagGaussianDistribution:
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
