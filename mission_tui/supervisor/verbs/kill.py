"""Kill: the run's whole tree ends now; what was not saved is lost."""

from __future__ import annotations

from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending.ladder import kill_now
from mission_tui.supervisor.run import LiveRun
from mission_tui.supervisor.starting.restart_rules import call_off_restarts, waiting_for_restart
from mission_tui.supervisor.targets import live_targets

__all__ = ["kill"]


async def kill(core: Core, request: Act) -> Accepted:
    """Kill the runs through their keepers. Asking again kills again."""

    def objection(run: LiveRun) -> str | None:
        if "unverifiable" not in core.store.view(run.id).flags:
            return None
        identity = core.launcher.find(run.dir, run.attempt).identity
        pids = f" (keeper {identity.keeper.pid}, trainer {identity.trainer.pid})" if identity is not None else ""
        return f"nothing proves that its processes{pids} are still its own; look at them and end them yourself"

    waiting = waiting_for_restart(core, request.runs)
    runs, notes = live_targets(core, request.runs, "kill", objection, waiting)
    call_off_restarts(core, waiting, "kill")
    for run in runs:
        core.record_verb(run, "kill")
        kill_now(core, run)
    return Accepted(re=request.id, runs=waiting + tuple(run.id for run in runs), notes=tuple(notes))
