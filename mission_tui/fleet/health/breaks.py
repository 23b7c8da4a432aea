"""Which events and records are declared breaks: what makes the rows after them incomparable with those before."""

from __future__ import annotations

from mission_tui.fleet.health.rule import Break
from mission_tui.fleet.history.events import CompanyChanged, FleetEvent, RunFrozen, RunPaused, RunResumed, RunThawed
from mission_tui.fleet.history.metrics import EvaluationDone, MetricRecord

__all__ = ["break_of"]


def break_of(fact: FleetEvent | MetricRecord) -> Break | None:
    """The break that `fact` declares as of its time; None when it declares none."""
    match fact:
        case RunPaused():
            return "pause"
        case RunResumed():
            return "unpause"
        case RunFrozen():
            return "freeze"
        case RunThawed():
            return "thaw"
        case CompanyChanged():
            return "company"
        case EvaluationDone():
            return "evaluation"
        case _:
            return None
