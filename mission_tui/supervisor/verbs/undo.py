"""Undo: a run launched less than ten seconds ago is killed and its directory removed, as if it had never been."""

from __future__ import annotations

import asyncio
import time

from mission_tui.errors import MissionError, UsageError
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Undo
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.disk.run_directory import remove_run
from mission_tui.supervisor.ending.ladder import end_now
from mission_tui.supervisor.targets import the_run

__all__ = ["UNDO_S", "undo"]

UNDO_S = 10.0
END_S = 20.0


async def undo(core: Core, request: Undo) -> Accepted:
    """Take the launches back. Raises `UsageError` for a run that is older, with nothing undone."""
    run_ids = tuple(dict.fromkeys(the_run(core, ref) for ref in request.runs))
    for run_id in run_ids:
        if time.monotonic() - core.launched.get(run_id, float("-inf")) > UNDO_S:
            name, limit = core.store.view(run_id).name, f"{UNDO_S:.0f} s"
            raise UsageError(f"cannot undo {name}: it was not launched in the last {limit}; stop or kill it instead")
    await asyncio.gather(*(_take_back(core, run_id) for run_id in run_ids))
    return Accepted(re=request.id, runs=run_ids)


async def _take_back(core: Core, run_id: str) -> None:
    run = core.live.get(run_id)
    if run is not None:
        core.ask_for(run, "kill")
        end_now(core, run)
        try:
            async with asyncio.timeout(END_S):
                await run.gone.wait()
        except TimeoutError:
            raise MissionError(f"{run_id} does not die; its directory stays, and `status` shows what hangs") from None
    remove_run(core.root, core.run_dir(run_id))
    core.forget(run_id)
    core.fleet.run_removed(run_id)
