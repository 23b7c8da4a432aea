"""Freeze: every process of the run stops where it stands, at once, and keeps all that it holds."""

from __future__ import annotations

import asyncio

from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending.freezing import freeze_run
from mission_tui.supervisor.run import LiveRun
from mission_tui.supervisor.targets import live_targets

__all__ = ["freeze"]


async def freeze(core: Core, request: Act) -> Accepted:
    """Freeze the runs; notes name processes that did not stop. A run is frozen when it was seen to be."""

    def objection(run: LiveRun) -> str | None:
        state = core.store.run(run.id).state
        if state in ("frozen", "stopping") or run.freezes:
            return f"it is {state if state == 'stopping' else 'frozen'}"
        return None if run.trainer is not None else "its trainer is not known yet; try again in a moment"

    runs, notes = live_targets(core, request.runs, "freeze", objection)
    for run in runs:
        core.record_verb(run, "freeze")
    for run, stand in zip(runs, await asyncio.gather(*(freeze_run(core, run) for run in runs)), strict=True):
        if stand is not None and stand.running:
            pids = ", ".join(map(str, stand.running))
            notes.append(f"{core.store.view(run.id).name}: processes {pids} did not stop; they stop when they can")
    return Accepted(re=request.id, runs=tuple(run.id for run in runs), notes=tuple(notes))
