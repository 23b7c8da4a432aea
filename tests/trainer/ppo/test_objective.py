"""The gradient in closed form, against autograd on the same formula."""

from __future__ import annotations

import torch as th

from mission_tui.trainer.ppo.losses import ActionEvaluation, ClipRanges, Objective
from mission_tui.trainer.ppo.rollout_buffer import Minibatch

CLIP = 0.2
SAMPLES = 20_000


def at_the_edges() -> tuple[th.Tensor, th.Tensor]:
    """Log-probabilities whose ratio lies within a few ulps of the edge of the clip range, and advantages."""
    generator = th.Generator().manual_seed(1)
    edges = th.tensor([1 - CLIP, 1 + CLIP])[th.randint(2, (SAMPLES,), generator=generator)]
    ulps = th.randint(-3, 4, (SAMPLES,), generator=generator) * th.finfo(th.float32).eps / 2
    return (edges * (1 + ulps)).log(), th.randn(SAMPLES, generator=generator)


def test_the_pull_is_that_of_autograd_where_products_round_to_a_tie() -> None:
    """`min` shares the gradient of a tie, and what lies outside the clip range gets one half of it, bit for bit."""
    log_prob, advantages = at_the_edges()
    nothing = th.zeros(SAMPLES)
    values = nothing.reshape(-1, 1)
    batch = Minibatch(nothing, nothing, nothing, nothing, advantages, nothing)
    objective = Objective(ClipRanges(CLIP, None), 0.0, 0.0)
    _, loss_gradient = objective.of(batch, advantages, values, ActionEvaluation(log_prob, nothing))

    watched = log_prob.clone().requires_grad_()
    ratio = watched.exp()
    held = ratio.clamp(1 - CLIP, 1 + CLIP)
    loss = -th.min(advantages * ratio, advantages * held).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    assert watched.grad is not None
    shared = (advantages * ratio == advantages * held) & (ratio != held)
    assert shared.sum() > 100
    assert th.equal(loss_gradient.log_prob, watched.grad)
