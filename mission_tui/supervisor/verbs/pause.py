"""Pause: the trainer blocks at its next update boundary and keeps what it holds, GPU memory included."""

from __future__ import annotations

from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.run import LiveRun
from mission_tui.supervisor.targets import live_targets

__all__ = ["pause"]


async def pause(core: Core, request: Act) -> Accepted:
    """Ask the runs to pause. A run is paused when its trainer says so."""

    def objection(run: LiveRun) -> str | None:
        state = core.store.run(run.id).state
        if state in ("paused", "frozen", "stopping"):
            return f"it is {state}"
        return None if run.link is not None else "its trainer is not connected; try again in a moment"

    runs, notes = live_targets(core, request.runs, "pause", objection)
    for run in runs:
        core.record_verb(run, "pause")
        run.wants_pause = True
        if run.link is not None:
            run.link.send(Order("pause"))
    return Accepted(re=request.id, runs=tuple(run.id for run in runs), notes=tuple(notes))
