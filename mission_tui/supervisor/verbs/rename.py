"""Rename: what people call a run; its id, and with it its folder, stays for good."""

from __future__ import annotations

from mission_tui.fleet.events.journal import RunRenamed
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Rename
from mission_tui.supervisor.catalog import resolve_run
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.starting.launching import check_new_names

__all__ = ["rename"]


async def rename(core: Core, request: Rename) -> Accepted:
    """Journal the new name, unless it is the run's already. Raises `UsageError` for one that cannot be had."""
    run_id = resolve_run(core, request.run)
    was = core.store.view(run_id).name
    if request.name == was:
        return Accepted(re=request.id, runs=(run_id,), notes=(f"{was} is its name already",))
    check_new_names(core, [request.name])
    core.record_request_of(run_id, lambda seq, t: RunRenamed(seq, t, request.name))
    return Accepted(re=request.id, runs=(run_id,), notes=(f"{was} is called {request.name} from now on",))
