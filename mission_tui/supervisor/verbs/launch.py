"""Launch: all of the asked runs get a directory and a keeper, or none does and the reason is said."""

from __future__ import annotations

from mission_tui.ipc.replies import Launched
from mission_tui.ipc.requests import Launch
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.starting.caller import Caller
from mission_tui.supervisor.starting.launching import begin_runs

__all__ = ["launch"]


async def launch(core: Core, request: Launch) -> Launched:
    """Make and start the runs; `Launched` means that they are on disk. Raises `MissionError` with nothing made."""
    caller = Caller(request.python, request.cwd, request.environ)
    made, warnings = await begin_runs(core, request.items, caller)
    views = tuple(core.store.view(run_id) for run_id in made)
    queued = tuple(f"{view.name} {view.cause}" for view in views if view.state == "queued" and view.cause)
    return Launched(re=request.id, runs=views, warnings=(*warnings, *queued))
