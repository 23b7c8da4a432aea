"""PPO's loss: what a policy says of a minibatch, what it yields whichever engine computes it, and its gradient.

`Objective` has the clipped objective with its gradient in closed form, so that autograd need not record it: the loss of
https://arxiv.org/abs/1707.06347, equation 9, with SB3's value clipping. Each gradient is computed by the operations
that autograd would have chosen, in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch as th
from torch.nn.functional import mse_loss

from mission_tui.trainer.ppo.rollout_buffer import Minibatch


class ActionEvaluation(NamedTuple):
    """What a policy says of given actions; `heads` and `ceilings` as in `Losses`.

    `choices`, shape (batch, choices), is the log-probability of each choice where there are some.
    """

    log_prob: th.Tensor
    entropy: th.Tensor | None
    heads: th.Tensor | None = None
    ceilings: th.Tensor | None = None
    choices: th.Tensor | None = None


class Losses(NamedTuple):
    """The loss to descend, and what it is made of or judged by (detached, on the device).

    `log_ratio`, shape (batch,), is the change of every action's log-probability since the rollout; `heads`, shape
    (heads,), the mean entropy of each of several heads; `ceilings`, alike, the most that it could be where not every
    action was allowed. `numbers`, shape (7,), is what an update tells of a minibatch, in the order of `UpdateSignals`,
    where it was computed on the way.
    """

    loss: th.Tensor
    policy_gradient: th.Tensor
    value: th.Tensor
    entropy: th.Tensor
    log_ratio: th.Tensor
    heads: th.Tensor | None
    ceilings: th.Tensor | None = None
    numbers: th.Tensor | None = None


@dataclass(frozen=True, slots=True)
class ClipRanges:
    """The clip ranges of this update; `value` is None when values are not clipped."""

    policy: float
    value: float | None


class LossGradient(NamedTuple):
    """On `values`, shape (batch, 1), `log_prob` and `entropy`, shape (batch,); None where the loss has no entropy."""

    values: th.Tensor
    log_prob: th.Tensor
    entropy: th.Tensor | None = None


def backprop(pairs: list[tuple[th.Tensor, th.Tensor]]) -> None:
    """Hand each output's gradient to autograd, as those of a scalar: given directly, torch would import an algebra."""
    parts = [th.dot(output.flatten(), gradient.flatten()) for output, gradient in pairs]
    th.stack(parts).sum().backward()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Objective:
    """The coefficients of one update."""

    clip: ClipRanges
    ent_coef: float
    vf_coef: float

    @th.no_grad()
    def of(
        self, batch: Minibatch, advantages: th.Tensor, values: th.Tensor, evaluation: ActionEvaluation
    ) -> tuple[Losses, LossGradient]:
        """Losses of a minibatch of n transitions and their gradient; `values` (n, 1), `advantages` (n,)."""
        log_ratio = evaluation.log_prob - batch.old_log_prob
        ratio = log_ratio.exp()
        held = ratio.clamp(1 - self.clip.policy, 1 + self.clip.policy)
        plain, clipped = advantages * ratio, advantages * held
        policy_loss = -th.min(plain, clipped).mean()
        to_log_prob = (advantages * (-1 / len(ratio))).masked_fill_(plain > clipped, 0.0)
        # An ulp outside the range both products may round to one number; `min` then gives half to the one that is held.
        tied = (plain == clipped) & (ratio != held)
        to_log_prob = th.where(tied, to_log_prob / 2, to_log_prob).mul_(ratio)
        value_loss, to_values = self._value(batch, values.flatten())
        entropy_loss = -th.mean(-evaluation.log_prob if evaluation.entropy is None else evaluation.entropy)
        to_entropy = self._entropy(evaluation.entropy, to_log_prob)
        losses = Losses(
            loss=policy_loss + self.ent_coef * entropy_loss + self.vf_coef * value_loss,
            policy_gradient=policy_loss,
            value=value_loss,
            entropy=entropy_loss,
            log_ratio=log_ratio,
            heads=evaluation.heads,
        )
        return losses, LossGradient(to_values.view(values.shape), to_log_prob, to_entropy)

    def _value(self, batch: Minibatch, values: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        predicted, change = values, None
        if self.clip.value is not None:
            change = values - batch.old_values
            predicted = batch.old_values + change.clamp(-self.clip.value, self.clip.value)
        slope = th.ops.aten.mse_loss_backward(values.new_full((), self.vf_coef), predicted, batch.returns, 1)
        if change is not None:
            slope.masked_fill_((change < -self.clip.value) | (change > self.clip.value), 0.0)  # type: ignore[operator]
        return mse_loss(batch.returns, predicted), slope

    def _entropy(self, entropy: th.Tensor | None, to_log_prob: th.Tensor) -> th.Tensor | None:
        """The gradient on the entropy; without one, -log_prob stands for it."""
        if not self.ent_coef:
            return None
        if entropy is None:
            to_log_prob.add_(self.ent_coef / len(to_log_prob))
            return None
        return th.full_like(entropy, -self.ent_coef).div_(len(entropy))
