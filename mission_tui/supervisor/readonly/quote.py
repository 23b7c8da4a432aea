"""A quote from the files of a runs root: what runs like these took here, and at what pace. Nobody is asked who would
begin: that is the supervisor's to say, who knows what the machine can still give.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from mission_tui.fleet.capacity.cost import estimated_cost
from mission_tui.fleet.capacity.reference_runs import Peaks
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.consistency import cautions
from mission_tui.ipc.replies import Quoted
from mission_tui.ipc.requests import Quote
from mission_tui.paths import GPU_DRIVER
from mission_tui.supervisor.readonly.fleet import ReadonlyFleet
from mission_tui.supervisor.starting.throughput_estimate import estimate_paces

__all__ = ["quote_from_files"]


def quote_from_files(runs: ReadonlyFleet, request: Quote) -> Quoted:
    """The costs of every item; it is not `decided` whether any of them would begin, or be refused."""
    peaks, driver = Peaks(), GPU_DRIVER.exists()
    for run in _ended(runs):
        if run.journal.peak is not None and run.spec is not None:
            peaks.add(run.spec, run.journal.peak, run.journal.ended_t or 0.0)
    cores = len(os.sched_getaffinity(0))
    specs = [item.spec for item in request.items]
    costs = tuple(
        estimated_cost(spec, cores, peaks.of(spec), pace, driver=driver)
        for spec, pace in zip(specs, estimate_paces(runs, specs), strict=True)
    )
    warnings = dict.fromkeys(f"{spec.preset}: {caution}" for spec in specs for caution in cautions(spec))
    return Quoted(re=request.id, costs=costs, decided=False, warnings=tuple(warnings))


def _ended(runs: ReadonlyFleet) -> Iterator[RunHistory]:
    """Those of which more than the end was read."""
    return (runs.store.run(run_id) for run_id in runs.store.run_ids() if run_id not in runs.waiting)
