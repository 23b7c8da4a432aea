"""Which runs train beside which: a declared break for throughput, journaled into every live run that it concerns.

A run is company from its hand-over to a keeper (starting costs cores too) until it has ended or is held (paused,
frozen). That it begins to learn is told once more, because only then it needs what it will need.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from mission_tui.fleet.events.journal import CoRunningChanged
from mission_tui.fleet.history.run import RunHistory
from mission_tui.supervisor.core import Core

__all__ = ["CoRunningMonitor"]

Stage = Literal["starting", "training"]


class CoRunningMonitor:
    """Looks once a beat; what was told before a restart is in the journals."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._stages: dict[str, Stage] = {}
        self._told: set[str] = set()

    def poll(self) -> None:
        """Tell every live attempt of the others that came, began to learn or left since the last look."""
        known = {run_id: self._core.store.run(run_id) for run_id in self._core.live}
        stages = {run_id: stage for run_id, run in known.items() if (stage := _stage(run)) is not None}
        changed = {run_id for run_id in stages.keys() | self._stages.keys() if not self._same(run_id, stages)}
        for run_id, run in known.items():
            others = len(stages) - (run_id in stages)
            news = bool(changed - {run_id}) if run_id in self._told else others != run.journal.others
            if run.journal.attempt and run.journal.outcome is None and news:
                self._core.record_observed(self._core.live[run_id], partial(_changed, others))
        self._stages, self._told = stages, set(known)

    def _same(self, run_id: str, stages: dict[str, Stage]) -> bool:
        return self._stages.get(run_id) == stages.get(run_id)


def _stage(run: RunHistory) -> Stage | None:
    journal = run.journal
    if journal.attempt == 0 or journal.outcome is not None or journal.held:
        return None
    return "training" if run.metrics.attempt == journal.attempt else "starting"


def _changed(others: int, seq: int, t: float) -> CoRunningChanged:
    return CoRunningChanged(seq, t, others)
