"""Action heads without objects, against the distributions they stand for and autograd on what they judge."""

from __future__ import annotations

import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy

from mission_tui.trainer.ppo.heads import Head, head_of
from mission_tui.trainer.ppo.losses import LossGradient, backprop

ROWS = 300
SPACES = {
    "one choice": spaces.Discrete(5),
    "several choices": spaces.MultiDiscrete([2, 3, 4]),
    "switches": spaces.MultiBinary(3),
    "components": spaces.Box(-1.0, 1.0, (3,)),
}


def policy_of(name: str) -> ActorCriticPolicy:
    """A fresh policy with the head of `name`; components have a spread that is not 1."""
    observed = spaces.Box(-1.0, 1.0, (2,))
    return ActorCriticPolicy(observed, SPACES[name], lambda _: 1e-3, log_std_init=-0.3)


@th.no_grad()
def asked(policy: ActorCriticPolicy) -> tuple[Head, th.Tensor, th.Tensor]:
    """The head, outputs of an action net that are no unit Gaussians, and actions sampled from them."""
    head = head_of(policy)
    assert head is not None
    th.manual_seed(1)
    width = next(policy.action_net.parameters()).shape[0]
    output = 2 * th.randn(ROWS, width) + 0.5
    return head, output, head.sample(output)


@pytest.mark.parametrize("name", SPACES)
def test_samples_are_those_of_the_distribution(name: str) -> None:
    """The same generator gives the same actions, and leaves the same numbers to come."""
    policy = policy_of(name)
    head, output, _ = asked(policy)
    th.manual_seed(7)
    ours, behind = head.sample(output), th.rand(1)
    th.manual_seed(7)
    distribution = policy.action_dist
    arguments = (output, policy.log_std) if name == "components" else (output,)
    theirs = distribution.proba_distribution(*arguments).sample()
    assert th.equal(ours, theirs)
    assert th.equal(behind, th.rand(1))


@pytest.mark.parametrize("bonus", [False, True], ids=["", "with entropy"])
@pytest.mark.parametrize("name", SPACES)
def test_the_gradient_is_that_of_autograd(name: str, bonus: bool) -> None:
    """On the output and on the spread, for any pull on log-probabilities and entropies."""
    policy = policy_of(name)
    head, output, actions = asked(policy)
    loss_gradient = LossGradient(th.empty(0), th.randn(ROWS), th.randn(ROWS) if bonus else None)
    watched = output.clone().requires_grad_()
    evaluation = head.evaluate(watched, actions)
    assert evaluation.entropy is not None
    pairs = [(evaluation.log_prob, loss_gradient.log_prob)]
    backprop([*pairs, (evaluation.entropy, loss_gradient.entropy)] if loss_gradient.entropy is not None else pairs)
    learned = [policy.log_std] if name == "components" else []
    theirs = [copied(each) for each in (watched, *learned)]
    with th.no_grad():
        mine = [head.gradient(output, actions, head.evaluate(output, actions), loss_gradient)]
    mine.extend(copied(each) for each in learned)
    for gradient, their in zip(mine, theirs, strict=True):
        th.testing.assert_close(gradient, their, rtol=1e-4, atol=1e-5)


def copied(watched: th.Tensor) -> th.Tensor:
    """The gradient of `watched`, apart from it."""
    assert watched.grad is not None
    return watched.grad.clone()
