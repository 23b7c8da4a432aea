"""Which events and records are declared breaks: what makes the rows after them incomparable with those before."""

from __future__ import annotations

from typing import Literal

from mission_tui.fleet.events import journal
from mission_tui.fleet.events.metrics import EvaluationDone, MetricRecord

Break = Literal["pause", "unpause", "freeze", "thaw", "step", "stepped", "company", "evaluation"]
"""Declared breaks within an attempt: it was held or went on, another run came or went, an evaluation ran, or the clock
was set forward, which leaves a gap between two times that no process has lived through.
"""


def declared_breaks(fact: journal.FleetEvent | MetricRecord) -> tuple[tuple[float, Break], ...]:
    """The breaks that `fact` declares, each as of its time; mostly none.

    A clock that was set forward is time that never was: it began when the clock would have shown less.
    """
    if isinstance(fact, journal.ClockStepped):
        return ((fact.t - fact.by_s, "step"), (fact.t, "stepped")) if fact.by_s > 0.0 else ()
    cause = _break_of(fact)
    return () if cause is None else ((fact.t, cause),)


def _break_of(fact: journal.FleetEvent | MetricRecord) -> Break | None:
    match fact:
        case journal.RunPaused():
            return "pause"
        case journal.RunResumed():
            return "unpause"
        case journal.RunFrozen():
            return "freeze"
        case journal.RunThawed():
            return "thaw"
        case journal.CoRunningChanged():
            return "company"
        case EvaluationDone():
            return "evaluation"
        case _:
            return None
