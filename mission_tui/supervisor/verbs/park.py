"""Park: the trainer saves and ends, so that all it held is free, and the run waits to be resumed."""

from __future__ import annotations

from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending.ladder import stop_gracefully
from mission_tui.supervisor.run import LiveRun
from mission_tui.supervisor.starting.restart_rules import call_off_restarts, waiting_for_restart
from mission_tui.supervisor.targets import live_targets

__all__ = ["park"]


async def park(core: Core, request: Act) -> Accepted:
    """Ask the runs to save and make room. A run is parked when its trainer has saved and is gone."""

    def objection(run: LiveRun) -> str | None:
        return "it is stopping" if core.store.run(run.id).state == "stopping" else None

    waiting = waiting_for_restart(core, request.runs)
    runs, notes = live_targets(core, request.runs, "park", objection, waiting)
    call_off_restarts(core, waiting, "park")
    for run in runs:
        run.applying = ""
        core.record_verb(run, "park")
        stop_gracefully(core, run)
    return Accepted(re=request.id, runs=waiting + tuple(run.id for run in runs), notes=tuple(notes))
