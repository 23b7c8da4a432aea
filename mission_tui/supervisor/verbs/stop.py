"""Stop: the trainer saves and ends; its keeper is asked when the trainer does not obey in time."""

from __future__ import annotations

from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending.ladder import stop_gracefully
from mission_tui.supervisor.starting.restart_rules import call_off_restarts, waiting_for_restart
from mission_tui.supervisor.targets import live_targets

__all__ = ["stop"]


async def stop(core: Core, request: Act) -> Accepted:
    """Ask the runs to save and stop; a run that is stopping already goes on doing so, and stays stopped."""
    waiting = waiting_for_restart(core, request.runs)
    runs, notes = live_targets(core, request.runs, "stop", lambda _run: None, waiting)
    call_off_restarts(core, waiting, "stop")
    for run in runs:
        run.applying = ""
        if "stop" in core.store.run(run.id).journal.asked:
            notes.append(f"{core.store.view(run.id).name} is stopping already")
            continue
        core.record_verb(run, "stop")
        stop_gracefully(core, run)
    return Accepted(re=request.id, runs=waiting + tuple(run.id for run in runs), notes=tuple(notes))
