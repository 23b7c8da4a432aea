"""The kinds of numbers that fields of a spec take, and a number that changes over a training."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Steps = Annotated[int, Meta(ge=1, le=10**15)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
NonNegative = Annotated[float, Meta(ge=0.0, le=1e9)]
AboveZero = Annotated[float, Meta(gt=0.0, le=1e9)]
LearningRate = Annotated[float, Meta(gt=0.0, le=1.0)]


class Schedule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hyper-parameter that changes with progress: from `start` (first step) to `end` (last step)."""

    start: NonNegative
    end: NonNegative = 0.0
    kind: Literal["linear"] = "linear"
