"""What is wrong with a run: findings of the health rules, and duties that failed.

A finding has evidence, a cause in the run's own settings, and one advice. A failed duty is what should have been done
for a run, or for all of them, and was not: journaled when it is seen, counted while it repeats, shown until a
checkpoint, its retention, an evaluation or a messenger is done again, else for the rest of the attempt. What a failed
checkpoint means for the training is judged by the rule `checkpoint-age`.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.ranges import Count, UnixTime
from mission_tui.fleet.text import clean

Severity = Literal["info", "warning", "critical"]
FindingState = Literal["open", "acknowledged", "silenced", "cleared"]

GRAVITY: dict[Severity, int] = {"info": 0, "warning": 1, "critical": 2}
CHECKPOINT = "checkpoint"
"""The duty that the next checkpoint that is saved makes good."""

EVALUATION = "evaluation"
"""The duty that the next evaluation that is played makes good."""

METRICS = "metrics.jsonl"
"""The duty that the next row makes good that the disk takes."""

RETENTION = "retention"
"""The duty that the next checkpoint that is saved tries again, and fails at after it where it does."""

WHY_CHARACTERS = 300


class Finding(Struct, frozen=True, omit_defaults=True):
    """One incident of one rule. `advice` is a sentence; `advice_set` the exact `--set` assignments it proposes.

    `first_t` and `last_t` are unix seconds, 0 where no time is known. `signal` is the tag whose curve shows the
    incident, `threshold` the level on it that was passed, `window` the updates that were looked at: for drawing it.
    """

    id: str
    rule: str
    severity: Severity
    first_update: Count
    last_update: Count
    sentence: str
    cause: str
    advice: str
    advice_set: tuple[str, ...] = ()
    state: FindingState = "open"
    first_t: UnixTime = 0.0
    last_t: UnixTime = 0.0
    signal: str = ""
    threshold: float | None = None
    window: Count = 1
    evidence: tuple[dict[str, Metric], ...] = field(default_factory=tuple)

    @property
    def attempt(self) -> int:
        """The attempt that it belongs to, as its id says; 0 for an id of another form."""
        number = self.id.rsplit("-", 2)[-2:][0]
        return int(number) if number.isdecimal() and len(number) < 10 else 0

    @property
    def applicable(self) -> bool:
        """Whether a resume can follow its advice: information without assignments asks for nothing."""
        return bool(self.advice_set) or self.severity != "info"

    @property
    def proposal(self) -> str:
        """The advice with the exact assignments it proposes, as one would type them."""
        return " ".join((self.advice, *(f"--set {assignment}" for assignment in self.advice_set)))


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
