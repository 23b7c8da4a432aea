"""Upgrades: which packages were changed under live runs since they were launched."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from mission_tui.errors import UsageError
from mission_tui.ipc.replies import Upgrade, UpgradesReply
from mission_tui.ipc.requests import GetUpgrades
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.subject import caller_of

__all__ = ["upgrades"]


async def upgrades(core: Core, request: GetUpgrades) -> UpgradesReply:
    """Look with the interpreter, folder and environment of each live run; those launched alike are one look."""
    found = [one for one in await asyncio.gather(*(_of(core, run_id) for run_id in tuple(core.live))) if one]
    return UpgradesReply(re=request.id, upgrades=tuple(one for one in found if one.changes), looked=len(found))


async def _of(core: Core, run_id: str) -> Upgrade | None:
    """What changed under the run; None where that cannot be known."""
    run, attempt = core.run_dir(run_id), core.store.run(run_id).journal.attempt
    with suppress(UsageError):
        changes = await core.provenance.upgraded(run, attempt, caller_of(core, run, attempt))
        return None if changes is None else Upgrade(run=run_id, name=core.name_of(run_id), changes=changes)
    return None
