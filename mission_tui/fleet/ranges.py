"""The ranges of numbers in files, and what a name there may be. A line of a record with a number out of its range is
damaged: no date, sum or picture is made of it. In a spec a number may also change over a training, as a schedule.

The bounds are checked by the decoder, which takes no time for it; what a process says of itself is not looked at again.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

UnixTime = Annotated[float, Meta(gt=-1e10, lt=1e11)]
"""Seconds since 1970: a date from 1653, for a clock that stepped, to the year 5138."""

Seconds = Annotated[float, Meta(gt=-1e10, lt=1e10)]
"""A length of time: three hundred years at most; a clock that was set back can make it negative."""

Rate = Annotated[float, Meta(gt=-1e15, lt=1e15)]
"""So many of something a second."""

Count = Annotated[int, Meta(ge=0, le=2**53)]
"""How many, or the number of something: exact as a float too."""

Whole = Annotated[int, Meta(ge=-(2**53), le=2**53)]
"""A number with a sign."""

Bytes = Annotated[int, Meta(ge=0, le=2**60)]
"""A size: an exbibyte at most."""

Pid = Annotated[int, Meta(ge=1, le=2**31 - 1)]
"""The number of a process, as the kernel holds it: larger ones are no numbers to it."""

PlainName = Annotated[str, Meta(pattern=r"^(?!\.\.?$)[^/]*$")]
"""The name of a file or folder in another one: it leads nowhere else."""

Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Steps = Annotated[int, Meta(ge=1, le=10**15)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
NonNegative = Annotated[float, Meta(ge=0.0, le=1e9)]
AboveZero = Annotated[float, Meta(gt=0.0, le=1e9)]
LearningRate = Annotated[float, Meta(gt=0.0, le=1.0)]


class Schedule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A learning-rate schedule, or that of another hyper-parameter: with progress from `start` (first step) to `end`
    (last step).
    """

    start: NonNegative
    end: NonNegative = 0.0
    kind: Literal["linear"] = "linear"
