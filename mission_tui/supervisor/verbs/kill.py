"""Kill: the run's whole tree ends now; what was not saved is lost."""

from __future__ import annotations

from mission_tui.ipc.messages import Accepted, Act
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ladder import end_now
from mission_tui.supervisor.restarting import call_off_restarts
from mission_tui.supervisor.targets import live_targets

__all__ = ["kill"]


async def kill(core: Core, request: Act) -> Accepted:
    """Kill the runs through their keepers. Asking again kills again."""
    waited = call_off_restarts(core, request.runs, "kill")
    runs, notes = live_targets(core, request.runs, "kill", lambda _run: None, waited)
    for run in runs:
        core.ask_for(run, "kill")
        end_now(run)
    return Accepted(re=request.id, runs=waited + tuple(run.id for run in runs), notes=tuple(notes))
