"""Undo: a run launched less than ten seconds ago is killed and its directory removed, as if it had never been."""

from __future__ import annotations

import asyncio
import time

from mission_tui.errors import UsageError
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import UNDO_S, Undo
from mission_tui.supervisor.catalog import resolve_run
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending.removal import undo_launch

__all__ = ["undo"]


async def undo(core: Core, request: Undo) -> Accepted:
    """Take the launches back. Raises `UsageError` for a run that is older, with nothing undone."""
    run_ids = tuple(dict.fromkeys(resolve_run(core, ref) for ref in request.runs))
    for run_id in run_ids:
        if time.monotonic() - core.launched.get(run_id, float("-inf")) > UNDO_S:
            name, limit = core.store.view(run_id).name, f"{UNDO_S:.0f} s"
            raise UsageError(f"cannot undo {name}: it was not launched in the last {limit}; stop or kill it instead")
    await asyncio.gather(*(undo_launch(core, run_id) for run_id in run_ids))
    return Accepted(re=request.id, runs=run_ids)
