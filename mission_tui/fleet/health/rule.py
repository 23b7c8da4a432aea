"""What every health rule has in common: the row it reads, what it concludes, and how it explains itself.

A row holds only numbers that were said; blank is not NaN and never 0, and what is no number at all is blank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from mission_tui.fleet.findings import Severity
from mission_tui.fleet.metrics import Metric, UpdateDone, spoken
from mission_tui.fleet.sizes import REFERENCE_GRADIENT_STEPS, REFERENCE_LEARNING_RATE, BatchPlan
from mission_tui.fleet.spec import Schedule, Spec

__all__ = [
    "Explanation",
    "Row",
    "Rule",
    "halved_learning_rate",
    "learning_rate_of",
    "pressure_sentence",
    "rounded",
    "row_of",
]


@dataclass(frozen=True, slots=True)
class Row:
    """One update as rules read it: numbers by tag, NaN and infinities included, and the returns of its episodes."""

    attempt: int
    update: int
    timesteps: int
    metrics: Mapping[str, float]
    returns: tuple[float, ...] = ()

    def evidence(self, *tags: str) -> dict[str, Metric]:
        """The row as a line of evidence: where it is, and those of `tags` that are known."""
        shown = {tag: spoken(self.metrics[tag]) for tag in tags if tag in self.metrics}
        return {"update": float(self.update), "timesteps": float(self.timesteps)} | shown


@dataclass(frozen=True, slots=True)
class Explanation:
    """The words of a finding: what is, why in this run's own settings, and the one thing to do about it."""

    sentence: str
    cause: str
    advice: str
    advice_set: tuple[str, ...] = ()
    evidence: tuple[dict[str, Metric], ...] = ()


class Rule(Protocol):
    """One rule of one run. It sees every update once, in order, and keeps its own windows."""

    @property
    def id(self) -> str: ...

    def judge(self, row: Row) -> Severity | None:
        """How bad things are as of `row`; None when there is nothing to say."""

    def explain(self, severity: Severity) -> Explanation:
        """The words for what `judge` has just said."""


def row_of(record: UpdateDone) -> Row:
    """`record` as a row; values that are no numbers are left out."""
    numbers = {tag: _number(metric) for tag, metric in record.metrics.items()}
    returns = [_number(metric) for metric in record.episodes.r]
    return Row(
        attempt=record.attempt,
        update=record.update,
        timesteps=record.timesteps,
        metrics={tag: value for tag, value in numbers.items() if value is not None},
        returns=tuple(value for value in returns if value is not None),
    )


def learning_rate_of(row: Row | None, spec: Spec) -> float:
    """The learning rate of `row`'s update; what the spec starts with when the row does not say."""
    rate = spec.ppo.learning_rate
    written = rate.start if isinstance(rate, Schedule) else rate
    return row.metrics.get("train/learning_rate", written) if row else written


def rounded(value: float) -> str:
    """Two digits for small numbers, whole ones from a hundred on: never an exponent for what a person compares."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def pressure_sentence(plan: BatchPlan, learning_rate: float) -> tuple[float, str]:
    """Update pressure as a multiple of the reference's 16 gradient steps x 2.5e-4, and in words."""
    pressure = plan.gradient_steps * learning_rate / (REFERENCE_GRADIENT_STEPS * REFERENCE_LEARNING_RATE)
    return pressure, (
        f"{plan.gradient_steps:,} gradient steps x {learning_rate:.3g} per update is {rounded(pressure)} x "
        f"the reference ({REFERENCE_GRADIENT_STEPS} x {REFERENCE_LEARNING_RATE:g})"
    )


def halved_learning_rate(spec: Spec) -> str:
    """The assignment that halves the run's learning rate, schedule or number."""
    rate = spec.ppo.learning_rate
    if isinstance(rate, Schedule):
        return f'ppo.learning_rate={{ start = {rate.start / 2:.3g}, end = {rate.end / 2:.3g}, kind = "{rate.kind}" }}'
    return f"ppo.learning_rate={rate / 2:.3g}"


def _number(metric: object) -> float | None:
    if isinstance(metric, bool) or not isinstance(metric, int | float | str):
        return None
    try:
        return float(metric)
    except (ValueError, OverflowError):
        return None
