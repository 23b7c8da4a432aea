"""Shutdown: the supervisor leaves; runs go on, unless they are to be stopped first."""

from __future__ import annotations

import asyncio

from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Shutdown
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending.ladder import stop_gracefully
from mission_tui.supervisor.starting.restart_rules import call_off_restarts, waiting_for_restart

__all__ = ["shutdown"]


async def shutdown(core: Core, request: Shutdown) -> Accepted:
    """Leave once the answer is said. With `with_runs`, the answer comes when every run has saved and ended."""
    runs = [run for run in core.live.values() if not (request.with_runs and run.unseen)]
    unseen = [f"{core.name_of(run.id)} goes on: {run.unseen}" for run in core.live.values() if run.unseen]
    if request.with_runs:
        call_off_restarts(core, waiting_for_restart(core, core.store.live_ids()), "stop")
        for run in runs:
            run.applying = ""
            if "stop" not in core.store.run(run.id).journal.asked:
                core.record_verb(run, "stop")
                stop_gracefully(core, run)
        await asyncio.gather(*(run.gone.wait() for run in runs))
    core.request_exit("asked to")
    notes = tuple(unseen) if request.with_runs or not runs else (f"{len(runs)} runs go on",)
    return Accepted(re=request.id, runs=tuple(run.id for run in runs) if request.with_runs else (), notes=notes)
