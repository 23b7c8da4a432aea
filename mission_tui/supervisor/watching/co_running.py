"""Which runs train beside which, and what each brought that joined the others or left them: journaled into the runs.

A run is company from its hand-over to a keeper (starting costs cores too) until it has ended or is held (paused,
frozen). That it begins to learn is journaled as well, because only then it takes what it will take. Who trained when is
read from the store, so a supervisor that was restarted goes on where the last one was.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

from msgspec import structs

from mission_tui.fleet.events.journal import CoRunningChanged, GainMeasured
from mission_tui.fleet.events.marginal_gain import CONCLUSIVE, MarginalGain
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.marginal_gain.measure import Records, measure_gains
from mission_tui.fleet.marginal_gain.steady_periods import Span, training_spans_of
from mission_tui.supervisor.runs.machine_state import MachineState
from mission_tui.supervisor.runs.registry import Runs

LOOK_S = 5.0
MEMORY_S = 1800.0
ENDED_RUNS = 16
"""So many ended runs are still compared with."""
FULL_PERCENT = 90.0
FULL_SAMPLES = 30
MOST_KEPT = 512
Stage = Literal["starting", "training"]


class GainMonitor:
    """Looks once a beat; what is known already costs nothing."""

    def __init__(self, runs: Runs, machine: MachineState) -> None:
        self._runs = runs
        self._machine = machine
        self._looked_t = 0.0
        self._elsewhere: deque[tuple[float, float]] = deque(maxlen=int(MEMORY_S))
        self._kept: dict[object, Any] = {}

    def poll(self, now: float) -> None:
        """Journal what can be said at unix time `now`."""
        runs = self._runs
        if runs.live:
            self._sample_elsewhere(now)
        if not 0.0 <= now - self._looked_t < LOOK_S:
            self._looked_t = now
            self._measure(now)

    def _measure(self, now: float) -> None:
        runs = self._runs
        candidates = [runs.store.run(run_id) for run_id in self._candidates(now)]
        stays = [span for run in candidates for span in training_spans_of(run)]
        known = {(run.id, gain.t) for run in candidates for gain in run.journal.gains}
        turns = {(span.run, t) for span in stays for t in (span.since, span.until) if t is not None}
        if turns <= known or not runs.live:
            self._machine.unmeasured = ()
            return
        if len(self._kept) > MOST_KEPT:
            self._kept.clear()
        found = measure_gains(stays, self._records(), now, known)
        self._machine.unmeasured = found.waiting
        for run_id, gain in found.gains:
            said = structs.replace(gain, full=self._full()) if gain.verdict in CONCLUSIVE else gain
            runs.fetch(run_id)
            runs.record_observed_of(run_id, partial(_gain_measured, said))

    def _candidates(self, now: float) -> Iterator[str]:
        """Live runs, and those that ended lately."""
        store = self._runs.store
        yield from (run_id for run_id, run in self._runs.live.items() if run.launcher.can.here)
        for view in store.ended(0, ENDED_RUNS)[0]:
            if view.id not in self._runs.live and now - (view.ended_t or 0.0) < MEMORY_S:
                yield view.id

    def _records(self) -> Records:
        return Records(self._between, self._mean_elsewhere, self._machine.host.cores, self._kept)

    def _between(self, run_id: str, begin: float, end: float, most: int) -> list[Span]:
        found = self._runs.store.run(run_id).metrics.columns.speeds(begin, end, most)
        return [Span(t - seconds, t, rate) for t, seconds, rate in found if seconds > 0.0]

    def _sample_elsewhere(self, now: float) -> None:
        host = self._machine.host
        used = [self._runs.store.run(run_id).observed.usage for run_id in self._runs.live]
        if host.recent and any(used):
            ours = sum(usage.cpu_percent for usage in used if usage is not None)
            self._elsewhere.append((now, max(0.0, host.recent[-1] * host.cores - ours) / 100.0))

    def _mean_elsewhere(self, begin: float, end: float) -> float | None:
        seen = [cores for t, cores in self._elsewhere if begin <= t <= end]
        return statistics.fmean(seen) if seen else None

    def _full(self) -> Literal["", "cores", "gpu"]:
        """What is used up at this moment, so that no further run can have it."""
        recent = list(self._machine.host.recent)[-FULL_SAMPLES:]
        if recent and statistics.fmean(recent) >= FULL_PERCENT:
            return "cores"
        busy = [gpu.util.mean for gpu in self._machine.gpu.gpus if gpu.util.mean is not None]
        return "gpu" if busy and max(busy) >= FULL_PERCENT else ""


def _gain_measured(gain: MarginalGain, seq: int, t: float) -> GainMeasured:
    return GainMeasured(seq, t, gain)


class CoRunningMonitor:
    """Looks once a beat; what was told before a restart is in the journals."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._stages: dict[str, Stage] = {}
        self._told: set[str] = set()

    def poll(self) -> None:
        """Tell every live attempt of the others that came, began to learn or left since the last look."""
        here = [run_id for run_id, run in self._runs.live.items() if run.launcher.can.here]
        known = {run_id: self._runs.store.run(run_id) for run_id in here}
        stages = {run_id: stage for run_id, run in known.items() if (stage := _stage(run)) is not None}
        changed = {run_id for run_id in stages.keys() | self._stages.keys() if not self._same(run_id, stages)}
        for run_id, run in known.items():
            others = len(stages) - (run_id in stages)
            news = bool(changed - {run_id}) if run_id in self._told else others != run.journal.others
            if run.journal.attempt and run.journal.outcome is None and news:
                self._runs.record_observed(self._runs.live[run_id], partial(_changed, others))
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
