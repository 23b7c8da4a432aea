"""How far a shape may be from the preset's: wider rollouts are faster for free only while each sample is learned from
about as often, out of about as large a buffer.
"""

from __future__ import annotations

from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import Spec, rollout_size

__all__ = ["BUFFER_WITHIN", "FEWEST_STEPS", "STEPS_WITHIN", "shape_refusal", "steps_per_sample"]

BUFFER_WITHIN = 2.0
STEPS_WITHIN = 2.0
FEWEST_STEPS = 16
"""Shorter pieces of an episode are mostly the critic's guess of what follows."""


def steps_per_sample(spec: Spec) -> float:
    """Gradient steps per update and transition of it: what decides how far a sample moves the policy."""
    return plan_batch(spec).gradient_steps / rollout_size(spec)


def shape_refusal(own: Spec, other: Spec) -> str | None:
    """Why `other` is too far from `own` to be its shape for another machine; None where it is not."""
    buffer, size = rollout_size(own), rollout_size(other)
    if not 1.0 / BUFFER_WITHIN <= size / buffer <= BUFFER_WITHIN:
        return f"its rollout of {size:,} transitions is beyond {BUFFER_WITHIN:g} times the preset's {buffer:,}"
    ratio = steps_per_sample(other) / steps_per_sample(own)
    # A hair beyond the limit is rounding.
    if not 0.999 / STEPS_WITHIN <= ratio <= 1.001 * STEPS_WITHIN:
        return f"it takes {ratio:.2g} times the preset's gradient steps per sample, beyond {STEPS_WITHIN:g} times"
    batch = plan_batch(other).batch_size
    if size % batch:
        return f"its minibatch of {batch:,} does not divide its rollout of {size:,}"
    if other.ppo.n_steps < min(FEWEST_STEPS, own.ppo.n_steps):
        return f"its {other.ppo.n_steps} steps of each environment are fewer than {FEWEST_STEPS}"
    return None
