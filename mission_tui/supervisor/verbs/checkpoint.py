"""Checkpoint: the trainer saves at its next update boundary and goes on."""

from __future__ import annotations

from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.run import LiveRun
from mission_tui.supervisor.targets import live_targets

__all__ = ["checkpoint"]


async def checkpoint(core: Core, request: Act) -> Accepted:
    """Ask the runs for a checkpoint; it shows in snapshots once it was read back."""

    def objection(run: LiveRun) -> str | None:
        state = core.store.run(run.id).state
        if state == "stopping":
            return "it is stopping, which saves one anyway"
        if state == "frozen":
            return "it is frozen; resume it first"
        return None if run.link is not None else "its trainer is not connected; try again in a moment"

    runs, notes = live_targets(core, request.runs, "checkpoint", objection)
    for run in runs:
        core.ask_for(run, "checkpoint")
        if run.link is not None:
            run.link.send(Order("checkpoint"))
    return Accepted(re=request.id, runs=tuple(run.id for run in runs), notes=tuple(notes))
