"""The next attempt of a run that restarts by itself: as the one before, from the newest checkpoint that verifies."""

from __future__ import annotations

import asyncio
import logging

from mission_tui.errors import MissionError
from mission_tui.fleet.events import RunParked
from mission_tui.fleet.terms import AS_IT_WAS
from mission_tui.records.checkpoint import newest_verified
from mission_tui.records.storage import StorageError
from mission_tui.supervisor.another_attempt import terms_before
from mission_tui.supervisor.caller import Caller
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.live_load import check_machine
from mission_tui.supervisor.next_attempt import start_next_attempt
from mission_tui.supervisor.restarting import due_restarts
from mission_tui.supervisor.subject import caller_of

__all__ = ["Restarts", "start_again"]

log = logging.getLogger(__name__)


class Restarts:
    """Looked at once a beat; reading a checkpoint may take longer than one."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._lacks_room = False

    def look(self, now: float) -> None:
        """Begin the restarts that are due at unix time `now`. They wait for old processes and for room on disk."""
        self._under_way = {run_id: task for run_id, task in self._under_way.items() if not task.done()}
        due = [run_id for run_id in due_restarts(self._core, now) if run_id not in self._under_way]
        if not due or not self._has_room():
            return
        for run_id in due:
            if self._core.launcher.is_free(self._core.run_dir(run_id)):
                self._under_way[run_id] = asyncio.create_task(self._restart(run_id), name=f"restart {run_id}")

    def _has_room(self) -> bool:
        try:
            self._core.check_room()
        except StorageError as error:
            if not self._lacks_room:
                log.warning("restarts wait: %s", error)
            self._lacks_room = True
        else:
            self._lacks_room = False
        return not self._lacks_room

    async def _restart(self, run_id: str) -> None:
        core = self._core
        newest = await asyncio.to_thread(newest_verified, core.run_dir(run_id).checkpoints)
        # Stopped, resumed or removed by somebody while the checkpoint was read.
        if run_id not in core.store.live_ids() or (due := core.store.run(run_id).told.restart) is None:
            return
        attempt = core.store.run(run_id).told.attempt
        try:
            caller = caller_of(core, core.run_dir(run_id), attempt)
            start_again(core, run_id, caller, None if newest is None else newest.name, due.number)
        except MissionError as error:
            log.warning("%s: %s", run_id, error)
            if isinstance(error, StorageError) and error.full:
                return
            why = f"could not be restarted: {error}"
            core.witness_of(run_id, lambda seq, t: RunParked(seq, t, attempt, why))


def start_again(core: Core, run_id: str, caller: Caller, checkpoint: str | None, restart: int = 0) -> None:
    """Start an attempt like the one before; without a checkpoint it begins anew. Raises `MissionError`."""
    spec = core.store.run(run_id).spec
    assert spec is not None
    check_machine(core, (spec,))
    terms = terms_before(core, run_id, checkpoint)
    start_next_attempt(core, run_id, spec, caller, checkpoint, terms=terms or AS_IT_WAS, restart=restart)
