"""Taking a run back as if it had never been: whatever lives of it is killed, then its directory is removed."""

from __future__ import annotations

import asyncio

from mission_tui.errors import MissionError
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.disk.run_directory import remove_run
from mission_tui.supervisor.ending.ladder import kill_now

__all__ = ["kill_live", "undo_launch"]

END_S = 20.0


async def kill_live(core: Core, run_id: str) -> None:
    """Kill the run if it lives, and wait until it has ended. Raises `MissionError` when it does not die."""
    run = core.live.get(run_id)
    if run is None:
        return
    if run.unseen:
        raise MissionError(f"{run_id} cannot be killed: {run.unseen}")
    core.record_verb(run, "kill")
    kill_now(core, run)
    try:
        async with asyncio.timeout(END_S):
            await run.gone.wait()
    except TimeoutError:
        raise MissionError(f"{run_id} does not die; its directory stays, and `status` shows what hangs") from None


async def undo_launch(core: Core, run_id: str) -> None:
    """Nothing of the run is left. Raises `MissionError` when it does not die, `StorageError` for the disk."""
    await kill_live(core, run_id)
    remove_run(core.root, core.run_dir(run_id))
    core.forget(run_id)
    core.fleet.run_removed(run_id)
