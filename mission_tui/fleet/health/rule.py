"""What every health rule has in common: the row it reads, the run it belongs to, what it concludes and how it says so.

A row holds only numbers that were said; blank is not NaN and never 0, and what is no number at all is blank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from mission_tui.fleet.findings import Severity
from mission_tui.fleet.health.returns import Returns
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.limits import Limits
from mission_tui.fleet.metrics import Metric, UpdateDone, spoken

__all__ = ["Break", "Explanation", "Patient", "Row", "Rule", "row_of"]

Break = Literal["pause", "unpause", "company", "evaluation"]
"""Declared breaks within an attempt: the person paused or went on, another run came or went, an evaluation ran."""


@dataclass(frozen=True, slots=True)
class Row:
    """One update as rules read it: numbers by tag, NaN and infinities included; its episodes; seconds.

    `t` is unix time and 0 where nobody said it; seconds and steps per second are 0 where nobody measured them.
    """

    attempt: int
    update: int
    timesteps: int
    metrics: Mapping[str, float]
    returns: tuple[float, ...] = ()
    lengths: tuple[int, ...] = ()
    t: float = 0.0
    rollout_s: float = 0.0
    update_s: float = 0.0
    steps_per_s: float = 0.0
    episodes: int = 0
    outcomes: Mapping[str, int] | None = None

    def evidence(self, *tags: str) -> dict[str, Metric]:
        """The row as a line of evidence: where it is, and those of `tags` that are known."""
        shown = {tag: spoken(self.metrics[tag]) for tag in tags if tag in self.metrics}
        return {"update": float(self.update), "timesteps": float(self.timesteps)} | shown


@dataclass(frozen=True, slots=True)
class Patient:
    """The run a rule judges: its settings, the limits in force, and its returns so far (taken in before any rule)."""

    settings: Settings
    limits: Limits
    returns: Returns


@dataclass(frozen=True, slots=True)
class Explanation:
    """The words of a finding: what is, why in this run's own settings, and the one thing to do about it.

    `signal` is the tag whose curve shows it, `threshold` the level on that curve that was passed, `window` how many
    updates were looked at: what a chart needs to draw the evidence.
    """

    sentence: str
    cause: str
    advice: str
    advice_set: tuple[str, ...] = ()
    evidence: tuple[dict[str, Metric], ...] = ()
    signal: str = ""
    threshold: float | None = None
    window: int = 1


class Rule:
    """One rule of one attempt. It sees every update once, in order, and keeps its own bounded windows."""

    id: ClassVar[str]

    def __init__(self, patient: Patient) -> None:
        self.patient = patient

    def judge(self, row: Row) -> Severity | None:
        """How bad things are as of `row`; None when there is nothing to say. Never raises."""
        raise NotImplementedError

    def explain(self, severity: Severity) -> Explanation:
        """The words for what `judge` has just said."""
        raise NotImplementedError

    def broken(self, cause: Break) -> None:
        """A declared break lies between the row before and the next one; forget what it makes incomparable."""


def row_of(record: UpdateDone) -> Row:
    """`record` as a row; values that are no numbers are left out."""
    numbers = {tag: metric if type(metric) is float else _number(metric) for tag, metric in record.metrics.items()}
    returns = [metric if type(metric) is float else _number(metric) for metric in record.episodes.r]
    outcomes = {name: count for name, count in record.episodes.outcomes.items() if type(count) is int and count > 0}
    return Row(
        attempt=record.attempt,
        update=record.update,
        timesteps=record.timesteps,
        metrics={tag: value for tag, value in numbers.items() if value is not None},
        returns=tuple(value for value in returns if value is not None),
        lengths=record.episodes.l,
        t=record.t,
        rollout_s=record.rollout_s,
        update_s=record.update_s,
        steps_per_s=record.steps_per_s,
        episodes=record.episodes.n,
        outcomes=outcomes,
    )


def _number(metric: object) -> float | None:
    if isinstance(metric, bool) or not isinstance(metric, int | float | str):
        return None
    try:
        return float(metric)
    except (ValueError, OverflowError):
        return None
