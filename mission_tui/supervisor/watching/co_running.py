"""Which runs train beside which, on this machine or on a node of an engine, and by how much the total speed rose or
fell when one joined or left: journaled into the runs.

A run counts as one of them from its hand-over to a keeper (starting costs cores too) until it has ended or is held
(paused, frozen). That it begins to learn is journaled as well, because only from then on it takes its full share. Who
trained when is read from the store, so a supervisor that was restarted goes on where the last one was.
"""

from __future__ import annotations

import statistics
from collections import Counter, deque
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

from msgspec import structs
from msgspec.structs import replace

from mission_tui.fleet.events.journal import CoRunningChanged, GainMeasured
from mission_tui.fleet.events.marginal_gain import CONCLUSIVE
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.marginal_gain import Records, Span, TrainingSpan, measure_gains, training_spans_of
from mission_tui.fleet.specs.spec import LAUNCHERS
from mission_tui.supervisor.runs.machine_state import MachineState
from mission_tui.supervisor.runs.registry import Runs

LOOK_S = 5.0
MEMORY_S = 1800.0
ENDED_RUNS = 16
"""So many ended runs are still compared with."""
FULL_PERCENT = 90.0
FULL_SAMPLES = 30
MOST_KEPT = 512
LOADING_S = 30.0
"""What lies between the moment in which a node begins a run and its training, where nobody saw it."""

NODES_A_LOOK = 4
MOST_ON_A_NODE = 64
HERE = ""
"""The place of runs of this machine."""

Stage = Literal["starting", "training"]


class GainMonitor:
    """Looks once a beat; what is known already costs nothing."""

    def __init__(self, runs: Runs, machine: MachineState) -> None:
        self._runs = runs
        self._machine = machine
        self._looked_t = 0.0
        self._elsewhere: deque[tuple[float, float]] = deque(maxlen=int(MEMORY_S))
        self._kept: dict[object, Any] = {}
        self._last_place = HERE

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
        candidates: dict[str, list[RunHistory]] = {}
        for run in map(runs.store.run, self._candidates(now)):
            if (place := place_of(run)) is not None:
                candidates.setdefault(place, []).append(run)
        if len(self._kept) > MOST_KEPT:
            self._kept.clear()
        self._machine.unmeasured = ()
        self._measure_place(HERE, candidates.pop(HERE, []), now)
        # Of a thousand nodes a few are looked at each time, in turns.
        shared = sorted(place for place, there in candidates.items() if len(there) > 1)
        turn = [place for place in shared if place > self._last_place] + shared
        for place in list(dict.fromkeys(turn))[:NODES_A_LOOK]:
            self._measure_place(place, candidates[place], now)
            self._last_place = place

    def _measure_place(self, place: str, candidates: list[RunHistory], now: float) -> None:
        """Runs slow each other down where they are together; what else a node does is not known here."""
        runs = self._runs
        stays = [self._once_it_came(span, run) for run in candidates for span in training_spans_of(run)]
        known = {(run.id, gain.t) for run in candidates for gain in run.journal.gains}
        turns = {(span.run, t) for span in stays for t in (span.since, span.until) if t is not None}
        if turns <= known or not any(run.id in runs.live for run in candidates):
            return
        elsewhere = self._mean_elsewhere if place == HERE else _nobody_looked
        records = Records(self._between, elsewhere, self._machine.host.cores, self._kept)
        found = measure_gains(stays, records, now, known)
        if place == HERE:
            self._machine.unmeasured = found.waiting
        for run_id, gain in found.gains:
            full = self._full() if place == HERE else ""
            said = structs.replace(gain, full=full) if gain.verdict in CONCLUSIVE else gain
            runs.fetch(run_id)
            runs.record_observed_of(run_id, partial(GainMeasured, payoff=said))

    def _once_it_came(self, span: TrainingSpan, run: RunHistory) -> TrainingSpan:
        """`span` without the time in which the run waited in the queue of an engine and took nothing."""
        if place_of(run) == HERE or span.since != run.journal.started_t:
            return span
        live = self._runs.live.get(run.id)
        came_t = live.waited_until_t if live is not None else (span.warm or span.since) - LOADING_S
        return replace(span, since=max(span.since, came_t))

    def _candidates(self, now: float) -> Iterator[str]:
        """Live runs, and those that ended lately."""
        store = self._runs.store
        yield from self._runs.live
        for view in store.ended(0, ENDED_RUNS)[0]:
            if view.id not in self._runs.live and now - (view.ended_t or 0.0) < MEMORY_S:
                yield view.id

    def _between(self, run_id: str, begin: float, end: float, most: int) -> list[Span]:
        found = self._runs.store.run(run_id).metrics.columns.speeds(begin, end, most)
        return [Span(t - seconds, t, rate) for t, seconds, rate in found if seconds > 0.0]

    def _sample_elsewhere(self, now: float) -> None:
        host = self._machine.host
        used = [self._runs.store.run(run_id).observed.usage for run_id in self._runs.live]
        if host.recent and any(used):
            ours = sum(usage.cpu_percent for usage in used if usage is not None)
            self._elsewhere.append((now, max(0.0, host.recent[-1] * host.present - ours) / 100.0))

    def _mean_elsewhere(self, begin: float, end: float) -> float | None:
        seen = [cores for t, cores in self._elsewhere if begin <= t <= end]
        return statistics.fmean(seen) if seen else None

    def _full(self) -> Literal["", "cores", "gpu"]:
        """What is fully used at this moment."""
        recent = list(self._machine.host.recent)[-FULL_SAMPLES:]
        if recent and statistics.fmean(recent) >= FULL_PERCENT:
            return "cores"
        busy = [gpu.util.mean for gpu in self._machine.gpu.gpus if gpu.util.mean is not None]
        return "gpu" if busy and max(busy) >= FULL_PERCENT else ""


def _nobody_looked(_begin: float, _end: float) -> float | None:
    return None


def place_of(run: RunHistory) -> str | None:
    """Where the newest attempt of the run is or was: here, or on a node of its engine; None while that is not known."""
    launcher = LAUNCHERS[0] if run.spec is None else run.spec.run.launcher
    if launcher == LAUNCHERS[0]:
        return HERE
    return f"{launcher} {run.observed.node}" if run.observed.node else None


class CoRunningMonitor:
    """Looks once a beat; what was journaled before a restart is not journaled again."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._stages: dict[str, tuple[str, Stage]] = {}
        self._told: set[str] = set()

    def poll(self) -> None:
        """Tell every live attempt of the others that came, began to learn or left where it is since the last look."""
        known = {run_id: self._runs.store.run(run_id) for run_id in self._runs.live}
        places = {run_id: place for run_id, run in known.items() if (place := place_of(run)) is not None}
        stages = {
            run_id: (place, stage) for run_id, place in places.items() if (stage := _stage(known[run_id])) is not None
        }
        there = Counter(place for place, _ in stages.values())
        changed: dict[str, set[str]] = {}
        for run_id in stages.keys() | self._stages.keys():
            before, now = self._stages.get(run_id), stages.get(run_id)
            for each in (before, now) if before != now else ():
                if each is not None:
                    changed.setdefault(each[0], set()).add(run_id)
        for run_id, place in places.items():
            run = known[run_id]
            others = there[place] - (run_id in stages)
            came_or_went = bool(changed.get(place, set()) - {run_id})
            news = came_or_went if run_id in self._told else others != run.journal.others
            # Of hundreds on one node nobody is told: each coming would be a line in the journal of every other.
            crowd = place != HERE and there[place] > MOST_ON_A_NODE
            if run.journal.attempt and run.journal.outcome is None and news and not crowd:
                self._runs.record_observed(self._runs.live[run_id], partial(CoRunningChanged, others=others))
        self._stages, self._told = stages, set(places)


def _stage(run: RunHistory) -> Stage | None:
    journal = run.journal
    if journal.attempt == 0 or journal.outcome is not None or journal.held:
        return None
    return "training" if run.metrics.attempt == journal.attempt else "starting"
