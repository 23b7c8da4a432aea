"""What a person asked a tune to try, and with how much patience: the part of its journal that decides everything."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Knob = Literal["vec", "threads", "compile", "precision", "shape"]

KNOBS: tuple[Knob, ...] = ("vec", "threads", "compile", "precision", "shape")
"""In the order in which they are tried where most of the time goes to rollouts: each begins with what won before it."""

HALF = 0.5


class TunePlan(Struct, frozen=True, kw_only=True):
    """`knobs` are tried `in_order`, each probe measured for `probe_s` seconds.

    In a stage every candidate is probed in turns, for `rounds` rounds at most; the winner of all stages is held against
    the preset's own settings in `repeats` fresh pairs. Once `budget_s` seconds are spent no new round begins. A probe
    without a first update `start_s` seconds after its launch is given up.
    """

    knobs: tuple[Knob, ...] = ("vec", "threads", "compile")
    probe_s: Annotated[float, Meta(ge=1.0, le=3600.0)] = 10.0
    rounds: Annotated[int, Meta(ge=2, le=20)] = 3
    repeats: Annotated[int, Meta(ge=2, le=50)] = 4
    budget_s: Annotated[float, Meta(ge=1.0, le=7 * 86400.0)] = 1800.0
    start_s: Annotated[float, Meta(ge=1.0, le=86400.0)] = 180.0


def in_order(knobs: tuple[Knob, ...], rollout_share: float | None) -> tuple[Knob, ...]:
    """The knobs in the order in which they are tried, if rollouts take this share of the preset's time.

    Whoever steps the environments touches rollouts alone and can bring no more than their share, so where learning
    takes longer, what makes that faster comes first: a budget is spent where something can be had for it.
    """
    if rollout_share is None or rollout_share >= HALF or "vec" not in knobs:
        return knobs
    late: tuple[Knob, ...] = ("vec", "shape")
    return (*(knob for knob in knobs if knob not in late), *(knob for knob in late if knob in knobs))
