"""The words of a resume verdict: one graded, explained change per field with its remedies, and the sum of them.

Terms are on what an attempt goes on from a checkpoint beyond what its spec says: `attempts/N/terms.json`. Those that
last (a warm-up, a scaled learning rate) are counted in updates and gradient steps since they began; the count is kept
in every checkpoint, so a second stop and resume in the middle loses none of it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from mission_tui.fleet.ranges import PlainName

WARM_UP_UPDATES = 10
"""How long the learning rate rises after Adam began anew (health guide, section 6: at least 10 updates)."""

Count = Annotated[int, Meta(ge=0, le=10**9)]
Grade = Literal["safe", "note", "warn", "refuse"]
RemedyName = Literal[
    "keep-minibatch",
    "hold-steps",
    "scale-lr",
    "reset-adam",
    "warm-up",
    "target-kl",
    "pin-schedule",
    "nearest",
    "as-long-again",
    "restore",
    "branch",
]


class Terms(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`fresh_optimizer` leaves Adam's moments behind, `fresh_normalizer` the running statistics.

    The learning rate rises in `warm_up_updates` equal parts to what the spec says; for the first `lr_scale_steps`
    gradient steps it is `lr_scale` times that. `overridden` are the fields whose refusal a person overrode by name.
    `weights_from` makes a fresh training begin with the weights of that checkpoint in the run's `origin/`: a branch.
    The attempt ends once it has done `until_timesteps` (0: as its spec says), which leaves its schedules alone.
    """

    fresh_optimizer: bool = False
    warm_up_updates: Count = 0
    lr_scale: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0
    lr_scale_steps: Count = 0
    fresh_normalizer: bool = False
    overridden: tuple[str, ...] = ()
    weights_from: PlainName = ""
    until_timesteps: Annotated[int, Meta(ge=0, le=10**15)] = 0

    def learning_rate_factor(self, updates: int, gradient_steps: int) -> float:
        """What the learning rate is multiplied by, this many updates and gradient steps after the terms began."""
        scale = self.lr_scale if gradient_steps < self.lr_scale_steps else 1.0
        risen = (updates + 1) / self.warm_up_updates if updates < self.warm_up_updates else 1.0
        return scale * risen

    def over(self, updates: int, gradient_steps: int) -> bool:
        """Whether nothing of what lasts is left to do."""
        return updates >= self.warm_up_updates and gradient_steps >= self.lr_scale_steps

    def joined(self, other: Terms) -> Terms:
        """Both together: of two scales the smaller, of two durations the longer."""
        return structs.replace(
            self,
            fresh_optimizer=self.fresh_optimizer or other.fresh_optimizer,
            warm_up_updates=max(self.warm_up_updates, other.warm_up_updates),
            lr_scale=min(self.lr_scale, other.lr_scale),
            lr_scale_steps=max(self.lr_scale_steps, other.lr_scale_steps),
            fresh_normalizer=self.fresh_normalizer or other.fresh_normalizer,
            overridden=tuple(dict.fromkeys((*self.overridden, *other.overridden))),
        )

    def covers(self, other: Terms) -> bool:
        """Whether everything that `other` asks for is done under these terms."""
        return self.joined(other) == self

    @property
    def sentence(self) -> str:
        """What they mean, in a few words; empty when they change nothing."""
        parts = []
        if self.fresh_optimizer:
            parts.append("Adam begins anew")
        if self.lr_scale_steps:
            parts.append(f"learning rate x {self.lr_scale:.3g} for {self.lr_scale_steps:,} gradient steps")
        if self.warm_up_updates:
            parts.append(f"learning rate warms up over {self.warm_up_updates} updates")
        if self.fresh_normalizer:
            parts.append("the normalizer's statistics begin anew")
        if self.until_timesteps:
            parts.append(f"ends at {self.until_timesteps:,} timesteps")
        return ", ".join(parts)


AS_IT_WAS = Terms()
"""Going on with everything that the checkpoint holds."""


class Remedy(Struct, frozen=True, omit_defaults=True):
    """One thing that helps and that can be done: by `--set` words, on `terms`, by `restore`-ing the old value of its
    field, or as a `branch`, a new run with these weights. `what` says it in a few words.
    """

    name: RemedyName
    what: str
    assignments: tuple[str, ...] = ()
    terms: Terms = AS_IT_WAS


class Change(Struct, frozen=True, omit_defaults=True):
    """Field `name` was `was` and will be `now`; `why` says what that does to the run, `remedy` what would help.

    `remedies` are those that can be carried out by name. `override`: a person may go on against this refusal.
    `answered_by` is the remedy that was taken, where the change would have been warned of without it. `advised`: it is
    what a finding's advice asked for, so it is nobody's own change.
    """

    name: str
    was: str
    now: str
    grade: Grade
    why: str
    remedy: str = ""
    remedies: tuple[Remedy, ...] = ()
    override: bool = False
    answered_by: str = ""
    advised: bool = False


class ResumeVerdict(Struct, frozen=True):
    """All changes of a proposed resume and the worst of their grades."""

    grade: Grade
    changes: tuple[Change, ...] = ()
