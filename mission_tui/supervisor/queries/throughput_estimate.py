"""At what pace a new run would train: that of the newest run like it that trained on this very machine.

A runs root may lie on a disk that several machines share; what trained on another one says nothing here.
"""

from __future__ import annotations

import platform
from collections.abc import Container, Sequence
from contextlib import suppress
from itertools import islice
from typing import Protocol

from msgspec import structs

from mission_tui.errors import DamagedError
from mission_tui.fleet.capacity.cost import Pace
from mission_tui.fleet.capacity.reference_runs import ReferenceRun, differences, pace_of_several, reference_runs
from mission_tui.fleet.events.metrics import MetricRecord, TrainingStarted
from mission_tui.fleet.specs.spec import LAUNCHERS, Spec
from mission_tui.fleet.store import Store
from mission_tui.records.files.given_files import read_toml
from mission_tui.records.files.tail import read_first
from mission_tui.records.runs.attempt import read_handle, read_identity
from mission_tui.records.runs.layout import RunDir

_RUNS = 200
"""So many are looked at, the live ones and the newest ended ones."""

_FILES = 8
_ALIKE = 5


class PastRunSource(Protocol):
    """Who knows runs, but of those that are `waiting` little more than their end: the supervisor, or a read-only
    server.
    """

    @property
    def store(self) -> Store: ...
    @property
    def waiting(self) -> Container[str]: ...

    def run_dir(self, run_id: str) -> RunDir: ...


def estimate_paces(memory: PastRunSource, specs: Sequence[Spec]) -> list[Pace | None]:
    """For each of `specs`; None where nothing like it has trained here. Those that are equally fast are asked once."""
    known: list[tuple[Spec, Pace | None]] = []
    found: list[Pace | None] = []
    for spec in specs:
        same = next((entry for entry in known if _as_fast(spec, entry[0])), None)
        if same is None:
            same = spec, _pace(memory, spec)
            known.append(same)
        found.append(same[1])
    return found


def _as_fast(spec: Spec, other: Spec) -> bool:
    kinds = (spec.preset, spec.run.command), (other.preset, other.run.command)
    return kinds[0] == kinds[1] and not differences(spec, other)


def _pace(memory: PastRunSource, spec: Spec) -> Pace | None:
    store, waiting = memory.store, memory.waiting
    runs = [store.run(run_id) for run_id in islice((it for it in store.run_ids() if it not in waiting), _RUNS)]
    here: list[ReferenceRun] = []
    for reference in reference_runs(spec, runs)[:_FILES]:
        if here and len(reference.pace.differs) > len(here[0].pace.differs):
            break
        if _was_there(memory.run_dir(reference.run), spec.run.launcher):
            here.append(reference)
    if not here:
        return None
    # Those with the same number of other settings may differ in others: the newest says which.
    alike = [it.pace for it in here if it.pace.differs == here[0].pace.differs][:_ALIKE]
    return structs.replace(pace_of_several(alike), start_s=_start_s(memory.run_dir(here[0].run)))


def _was_there(run: RunDir, launcher: str) -> bool:
    """Whether its newest attempt trained where one by `launcher` will: on this machine, or on a node of its engine."""
    attempts = run.attempts()
    handle = None
    with suppress(DamagedError, OSError):
        handle = read_handle(run.attempt(attempts[-1]).handle) if attempts else None
    if launcher != LAUNCHERS[0]:
        return handle is not None and handle.launcher == launcher
    return (handle is None or handle.launcher == launcher) and _machine(run) in ("", platform.node())


def _machine(run: RunDir) -> str:
    """The name of the machine that its newest attempt trained on; empty where that is not known."""
    attempts = run.attempts()
    with suppress(DamagedError, OSError):
        if attempts:
            return str(read_toml(run.attempt(attempts[-1]).effective, DamagedError).get("host", {}).get("name", ""))
    return ""


def _start_s(run: RunDir) -> float | None:
    """Seconds from the start of the run's first attempt to its first rollout."""
    began = read_first(run.metrics, MetricRecord)
    with suppress(DamagedError, OSError):
        identity = read_identity(run.attempt(1).identity)
        if identity is not None and isinstance(began, TrainingStarted) and began.attempt == 1:
            return max(0.0, began.t - identity.started_t)
    return None
