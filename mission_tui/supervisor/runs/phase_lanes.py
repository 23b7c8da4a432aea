"""The phases of every run of the last day, each from the facts that the fleet takes in anyway.

A lost link begins a gap when the supervisor notices it; every other time is the one that the fact names.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from mission_tui.fleet.events.journal import AttemptEnded, RunFrozen, RunThawed
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.events.processes import LinkSeen, PhaseSeen
from mission_tui.fleet.history.run import Fact
from mission_tui.fleet.strips.phases import PhaseHistory

DAY_S = 86_400.0
MOST_OVER = 64
"""Ended runs whose phases stay in memory; those that ended last."""


class Lanes:
    """`histories` by the run's id, in the order in which they began to be watched here."""

    def __init__(self) -> None:
        self.histories: dict[str, PhaseHistory] = {}

    def take(self, run_id: str, fact: Fact) -> None:
        """Take in one fact of a run; most say nothing of phases."""
        match fact:
            case PhaseSeen(phase=None, t=t) if run_id in self.histories:
                self.histories[run_id].link_lost(t)
            case PhaseSeen(phase=phase, t=t) if phase is not None:
                self._of(run_id).entered(phase, t)
            case UpdateDone(t=t, rollout_s=rollout_s, update_s=update_s):
                self._of(run_id).trained(t, rollout_s, update_s)
            case LinkSeen(connected=False) if run_id in self.histories:
                self.histories[run_id].link_lost(time.time())
            case RunFrozen(t=t) if run_id in self.histories:
                self.histories[run_id].stopped(t)
            case RunThawed(t=t) if run_id in self.histories:
                self.histories[run_id].continued(t)
            case AttemptEnded(t=t) if run_id in self.histories:
                self.histories[run_id].ended(t)
                self._tidy(time.time())

    def load(self, run_id: str, records: Iterable[MetricRecord]) -> None:
        """Take in the rows of a run's whole file, as far as they are of the last day and news."""
        since = time.time() - DAY_S
        for record in records:
            if record.t > since:
                self.take(run_id, record)

    def forget(self, run_id: str) -> None:
        """Know nothing more of a run that was removed."""
        self.histories.pop(run_id, None)

    def _of(self, run_id: str) -> PhaseHistory:
        return self.histories.setdefault(run_id, PhaseHistory())

    def _tidy(self, now: float) -> None:
        """Let go of runs that ended a day ago, and of the oldest where too many ended since."""
        over = sorted((history.until, run_id) for run_id, history in self.histories.items() if history.until <= now)
        keep = {run_id for until, run_id in over[-MOST_OVER:] if until > now - DAY_S}
        for _, run_id in over:
            if run_id not in keep:
                del self.histories[run_id]
