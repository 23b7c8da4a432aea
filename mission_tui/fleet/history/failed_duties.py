"""Duties that failed: what should have been done for a run, or for all of them, and was not, with the reason.

A failure is a fact like any other: journaled when it is seen, counted while it repeats, shown until a checkpoint, its
retention, an evaluation or a messenger is done again, else for the rest of the attempt. What a failed checkpoint means
for the training is judged by the rule `checkpoint-age`.
"""

from __future__ import annotations

from msgspec import Struct

from mission_tui.fleet.text import clean

__all__ = ["CHECKPOINT", "EVALUATION", "RETENTION", "WHY_CHARACTERS", "FailedDuty", "failed_again"]

CHECKPOINT = "checkpoint"
"""The duty that the next checkpoint that is saved makes good."""

EVALUATION = "evaluation"
"""The duty that the next evaluation that is played makes good."""

RETENTION = "retention"
"""The duty that the next checkpoint that is saved tries again, and fails at after it where it does."""

WHY_CHARACTERS = 300


class FailedDuty(Struct, frozen=True, omit_defaults=True):
    """`duty` failed `times` times since unix time `first_t`, last at `t` because of `why`."""

    duty: str
    why: str
    t: float
    first_t: float = 0.0
    times: int = 1

    @property
    def sentence(self) -> str:
        """For people."""
        return f"{self.duty} failed{f' {self.times:,} times' if self.times > 1 else ''}: {self.why}"


def failed_again(known: FailedDuty | None, duty: str, why: str, t: float) -> FailedDuty:
    """`duty` failed at unix time `t`; `known` is what was known of it."""
    why, duty = clean(why, WHY_CHARACTERS), clean(duty, 40)
    return FailedDuty(duty, why, t, known.first_t if known else t, known.times + 1 if known else 1)
