"""Both sides of a resume, the spec that was and the one that would be, with the numbers that rulings are made of; and
the ruling itself, which is what one rule says about one changed field.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from mission_tui.fleet.resume.verdict import AS_IT_WAS, Grade, Remedy, Terms
from mission_tui.fleet.specs.algorithm import learning_table
from mission_tui.fleet.specs.sizes import BatchPlan, plan_batch
from mission_tui.fleet.specs.spec import Schedule, Spec, rollout_size

LARGEST_QUIET_RISE = 2.0
"""Of a learning rate at once, without a warning."""
LEAST_SHARE = 0.01
"""Of its start: what a schedule that has decayed to 0 goes on with, because 0 is no learning rate."""
MOMENT_STEPS = 1000
"""How far back Adam's second moment reaches, in gradient steps: 1 / (1 - 0.999)."""


class ResumeFacts(Struct, frozen=True):
    """What is known of the run besides its specs. None is unknown.

    `timesteps` are those of the checkpoint, `finished` says that the run used up its budget, the spaces are their
    printed forms, `steps_per_s` is the speed of its last updates, `grad_clipped_share` (0..1) is the share of gradients
    that ``max_grad_norm`` clipped lately, `replay_kept` says whether the checkpoint has its replay buffer, and
    `collapsed` is the sentence of the finding by which the checkpoint's policy was frozen or collapsed.
    """

    timesteps: int
    finished: bool = False
    obs_space_was: str | None = None
    obs_space_now: str | None = None
    act_space_was: str | None = None
    act_space_now: str | None = None
    steps_per_s: float | None = None
    grad_clipped_share: float | None = None
    collapsed: str | None = None
    replay_kept: bool | None = None


class Ruling(Struct, frozen=True):
    """What one rule says about one changed field."""

    grade: Grade
    why: str
    remedy: str = ""
    remedies: tuple[Remedy, ...] = ()
    override: bool = False
    answered_by: str = ""


class Sides(Struct, frozen=True):
    """The spec that `was` and the one that is asked for `now`, with the plans of their updates."""

    was: Spec
    now: Spec
    facts: ResumeFacts
    plan_was: BatchPlan
    plan_now: BatchPlan
    terms: Terms = AS_IT_WAS

    @classmethod
    def of(cls, was: Spec, now: Spec, facts: ResumeFacts, terms: Terms = AS_IT_WAS) -> Sides:
        """The sides with their plans worked out; `terms` are those that were chosen already."""
        return cls(was, now, facts, plan_batch(was), plan_batch(now), terms)

    @property
    def rollout_was(self) -> int:
        return rollout_size(self.was)

    @property
    def rollout_now(self) -> int:
        return rollout_size(self.now)

    @property
    def steps_change(self) -> str:
        """Gradient steps per update on both sides, in words."""
        was, now = self.plan_was.gradient_steps, self.plan_now.gradient_steps
        if was == now:
            return f"{now:,} gradient steps per update as before"
        ratio = f"{factor(now / was)} gradient steps" if now > was else "fewer gradient steps"
        return f"{ratio} per update ({was:,} -> {now:,})"

    @property
    def moments_in_updates(self) -> str:
        """How long Adam's moments remember, counted in updates of the new kind."""
        updates = MOMENT_STEPS / self.plan_now.gradient_steps
        return f"about 1,000 gradient steps ({updates:,.0f} updates)" if updates >= 2 else "about 1,000 gradient steps"

    def value_at_resume(self, value: float | Schedule, spec: Spec) -> float:
        """What a constant or schedule of `spec` is worth at the checkpoint; a timed schedule's progress is not known,
        so its start is taken."""
        if not isinstance(value, Schedule):
            return value
        total = spec.run.total_timesteps
        remaining = 1.0 if total is None else max(0.0, 1.0 - self.facts.timesteps / total)
        return value.end + remaining * (value.start - value.end)

    @property
    def learning_rate_was(self) -> float:
        return self.value_at_resume(learning_table(self.was)[1].learning_rate, self.was)

    @property
    def learning_rate_now(self) -> float:
        return self.value_at_resume(learning_table(self.now)[1].learning_rate, self.now)

    @property
    def rate_course(self) -> str:
        """How the learning rate changes, in words."""
        return f"{self.learning_rate_was:.3g} -> {self.learning_rate_now:.3g} at this point"

    @property
    def rate_ratio(self) -> float:
        """How many times as large the learning rate is; infinite where it had decayed to 0."""
        return self.learning_rate_now / self.learning_rate_was if self.learning_rate_was > 0.0 else math.inf

    def scaled_learning_rate(self, scale: float) -> tuple[str, ...]:
        """The assignments for `scale` times the learning rate, of a schedule for both its ends."""
        rate = self.now.ppo.learning_rate
        if not isinstance(rate, Schedule):
            return (f"ppo.learning_rate={scale * rate:.4g}",)
        start = f"ppo.learning_rate.start={scale * rate.start:.4g}"
        return (start, f"ppo.learning_rate.end={scale * rate.end:.4g}") if rate.end > 0.0 else (start,)

    @property
    def target_kl(self) -> str:
        """The assignment for 1.5 x clip_range^2 / 2, or for the target that holds already where that is no higher."""
        # A clip range that only jumps with the budget counts as it was: the jump has a remedy of its own.
        kept = self.now.ppo.clip_range
        clip = self.value_at_resume(kept, self.was if self.was.ppo.clip_range == kept else self.now)
        if isinstance(kept, Schedule) and clip <= (least := LEAST_SHARE * kept.start):
            # It had run out, and updates that end at a KL of nothing would freeze the policy.
            clip = max(least, self.value_at_resume(kept, self.now))
        level, held = float(f"{max(0.75 * clip * clip, 1e-6):.2g}"), self.now.ppo.target_kl
        return f"ppo.target_kl={level if held is None else min(level, held):g}"


Rule = Callable[[Sides], Ruling]


def always(grade: Grade, why: str, remedy: str = "", *remedies: Remedy, override: bool = False) -> Rule:
    """A rule that says the same whatever the numbers are."""
    ruling = Ruling(grade, why, remedy, remedies, override)
    return lambda _sides: ruling


def factor(ratio: float) -> str:
    """``8 x`` or ``1.5 x``."""
    return f"{ratio:.3g} x"


def larger(ratio: float) -> str:
    """``8 x larger``, also than nothing."""
    return f"{factor(ratio)} larger" if math.isfinite(ratio) else "larger (it had decayed to 0)"
