"""The next attempt of a run that restarts by itself: as the one before, from the newest checkpoint that verifies."""

from __future__ import annotations

import asyncio
import logging

from mission_tui.errors import MissionError
from mission_tui.fleet.events import RunParked
from mission_tui.fleet.terms import AS_IT_WAS, Terms
from mission_tui.records.attempt import write_launch
from mission_tui.records.checkpoint import newest_verified
from mission_tui.records.spec_file import read_spec, write_spec
from mission_tui.records.storage import storing
from mission_tui.records.terms_file import read_terms, write_terms
from mission_tui.supervisor.attempts import begin, hold_live
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.launchers.local import attempt_order
from mission_tui.supervisor.live_load import check_machine
from mission_tui.supervisor.restarting import due_restarts
from mission_tui.supervisor.subject import caller_of

__all__ = ["Restarts"]

log = logging.getLogger(__name__)


class Restarts:
    """Looked at once a beat; reading a checkpoint may take longer than one."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def look(self, now: float) -> None:
        """Begin the restarts that are due at unix time `now`. A run whose old processes still live waits for them."""
        self._under_way = {run_id: task for run_id, task in self._under_way.items() if not task.done()}
        for run_id in due_restarts(self._core, now):
            if run_id not in self._under_way and self._core.launcher.is_free(self._core.run_dir(run_id)):
                self._under_way[run_id] = asyncio.create_task(self._restart(run_id), name=f"restart {run_id}")

    async def _restart(self, run_id: str) -> None:
        core = self._core
        newest = await asyncio.to_thread(newest_verified, core.run_dir(run_id).checkpoints)
        # Stopped, resumed or removed by somebody while the checkpoint was read.
        if run_id not in core.store.live_ids() or core.store.run(run_id).told.restart is None:
            return
        try:
            _start(core, run_id, None if newest is None else newest.name)
        except MissionError as error:
            log.warning("%s: %s", run_id, error)
            attempt, why = core.store.run(run_id).told.attempt, f"could not be restarted: {error}"
            core.witness_of(run_id, lambda seq, t: RunParked(seq, t, attempt, why))


def _start(core: Core, run_id: str, checkpoint: str | None) -> None:
    """Hand the next attempt to a keeper; without a checkpoint it begins anew. Raises `MissionError`."""
    run, known = core.run_dir(run_id), core.store.run(run_id)
    assert known.spec is not None
    assert known.told.restart is not None
    check_machine(core, (known.spec,))
    restart = known.told.restart.number
    number = max([known.told.attempt, *run.attempts()]) + 1
    order = attempt_order(core.root, run, number, known.spec, caller_of(run, known.told.attempt), checkpoint)
    folder = run.attempt(number)
    with storing(folder.path, "make"):
        folder.path.mkdir(parents=True)
    if known.spec != read_spec(run.spec):
        write_spec(folder.spec, known.spec)
    terms = _unbegun_terms(core, run_id, checkpoint)
    write_terms(folder.terms, terms)
    write_launch(folder.launch, order)
    begin(core, hold_live(core, run, known.spec), order, checkpoint=checkpoint, terms=terms, restart=restart)


def _unbegun_terms(core: Core, run_id: str, checkpoint: str | None) -> Terms:
    """The terms of the failed attempt if it saved nothing: how far they have come is part of every later checkpoint."""
    told = core.store.run(run_id).told
    began_from = None if told.resumed is None else told.resumed.checkpoint
    return read_terms(core.run_dir(run_id).attempt(told.attempt).terms) if checkpoint == began_from else AS_IT_WAS
