"""What auto-scaling makes of a large rollout: the update without it, with it, and that of the reference, side by side.

The learning rate is never changed; where the gradient steps grew, the one that would compensate is proposed.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs

from mission_tui.fleet.specs.sizes import (
    REFERENCE_EPOCHS,
    REFERENCE_GRADIENT_STEPS,
    REFERENCE_LEARNING_RATE,
    REFERENCE_MINIBATCH,
    REFERENCE_ROLLOUT,
    plan_batch,
    starting_learning_rate,
)
from mission_tui.fleet.specs.spec import Spec, rollout_size


@dataclass(frozen=True, slots=True)
class ScaledRow:
    """One number of an update: in source 004's reference (256 x 128), without auto-scaling, and with it."""

    name: str
    reference: float
    without: float
    scaled: float


@dataclass(frozen=True, slots=True)
class Scaling:
    """The rows, and the learning rate that would hold the update near the reference; None where the given one does."""

    rows: tuple[ScaledRow, ...]
    proposed_learning_rate: float | None

    @property
    def sentence(self) -> str:
        """What is proposed; nothing is done about it."""
        if self.proposed_learning_rate is None:
            return ""
        rate = f"{self.proposed_learning_rate:.3g}"
        return (
            f"ppo.learning_rate={rate} would make up for the gradient steps; it is only proposed: "
            f"--set ppo.learning_rate={rate}"
        )


def scaling_of(spec: Spec) -> Scaling | None:
    """What auto-scaling does to `spec`; None where it is off, or the rollout too small for it."""
    if not spec.run.auto_scale or rollout_size(spec) < REFERENCE_ROLLOUT:
        return None
    plain = plan_batch(structs.replace(spec, run=structs.replace(spec.run, auto_scale=False)))
    scaled, rate, size = plan_batch(spec), starting_learning_rate(spec), rollout_size(spec)
    minibatches = REFERENCE_ROLLOUT // REFERENCE_MINIBATCH
    rows = (
        ScaledRow("rollout", REFERENCE_ROLLOUT, size, size),
        ScaledRow("ppo.batch_size", REFERENCE_MINIBATCH, plain.batch_size, scaled.batch_size),
        ScaledRow("minibatches", minibatches, plain.minibatches, scaled.minibatches),
        ScaledRow("ppo.n_epochs", REFERENCE_EPOCHS, plain.n_epochs, scaled.n_epochs),
        ScaledRow("gradient steps", REFERENCE_GRADIENT_STEPS, plain.gradient_steps, scaled.gradient_steps),
        ScaledRow("ppo.learning_rate", REFERENCE_LEARNING_RATE, rate, rate),
    )
    return Scaling(rows, scaled.proposed_learning_rate)
