"""The next attempt of a run that restarts by itself: as the one before, from the newest checkpoint that verifies.

Runs come one after the other, the oldest first, and each only when the machine and its own limits have room for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from mission_tui.errors import MissionError, PresetError, UsageError
from mission_tui.fleet.events.journal import RestartDue, RunParked
from mission_tui.fleet.events.processes import WaitSeen
from mission_tui.fleet.history.restart_policy import ASKED, Row
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Change
from mission_tui.ipc.requests import Resume
from mission_tui.records.atomic import StorageError
from mission_tui.records.runs.checkpoint import DamagedCheckpoint, Manifest, newest_intact, verify_checkpoint
from mission_tui.supervisor.launchers.order import Caller
from mission_tui.supervisor.lifecycle import further_attempts
from mission_tui.supervisor.lifecycle.capacity import check_machine, refresh_reservations
from mission_tui.supervisor.lifecycle.outcome import due_restarts
from mission_tui.supervisor.lifecycle.run_queue import why_it_waits
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs

log = logging.getLogger(__name__)


class Restarts:
    """Looked at once a beat; reading a checkpoint may take longer than one."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._under_way: asyncio.Task[None] | None = None
        self._lacks_room = False

    def poll(self, now: float) -> None:
        """Begin the restarts that are due at unix time `now`. They wait for old processes and for room on disk."""
        if self._under_way is not None and not self._under_way.done():
            return
        due = due_restarts(self._core, now)
        if not due:
            return
        full = self._full()
        ready = [run_id for run_id in due if self._may_begin(run_id, now, full)]
        if ready:
            self._under_way = asyncio.create_task(self._restart_each(ready), name="restarts")
            self._core.duties.follow("restarting runs", self._under_way)

    def _full(self) -> str:
        """What there is to say about the disk while it is full; the log has it once."""
        try:
            self._core.check_room()
        except StorageError as error:
            if not self._lacks_room:
                log.warning("restarts wait: %s", error)
            self._lacks_room = True
            return f"waits for the disk: {error}"
        self._lacks_room = False
        return ""

    def _may_begin(self, run_id: str, now: float, full: str) -> bool:
        core = self._core
        if not core.is_free(run_id):
            return False
        why = full or why_it_waits(core, run_id, now) or _lacks(core, run_id) or _variables(core, run_id)
        core.apply(run_id, WaitSeen(why))
        return not why

    async def _restart_each(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            await self._restart(run_id)

    async def _restart(self, run_id: str) -> None:
        core = self._core
        newest, damaged = await asyncio.to_thread(newest_intact, core.run_dir(run_id).checkpoints)
        await refresh_reservations(core)
        # Stopped, resumed or removed by somebody while the checkpoint was read.
        if run_id not in core.store.live_ids() or (due := core.store.run(run_id).journal.restart) is None:
            return
        # One that began a moment ago may have taken its place.
        if why := why_it_waits(core, run_id, time.time()) or _lacks(core, run_id) or _variables(core, run_id):
            core.apply(run_id, WaitSeen(why))
            return
        attempt, row = core.store.run(run_id).journal.attempt, _row(core, run_id, due)
        try:
            recalled = core.variables.recover_of(core.run_dir(run_id), attempt)
            if recalled.lack:
                # Gone since a moment ago: the next beat says what it waits for.
                return
            if due.choices is not None and await self._resumed(run_id, due, newest, damaged):
                return
            lost = further_attempts.damaged_changes(newest, damaged)
            further_attempts.journal_damaged(core, run_id, damaged)
            start_again(core, run_id, recalled.caller, None if newest is None else newest.name, row, lost)
            for change in lost:
                core.fail_for(run_id, "restart", f"went on from {change.now}: {change.why}")
        except MissionError as error:
            log.warning("%s: %s", run_id, error)
            if isinstance(error, StorageError) and error.full:
                return
            why = f"could not be restarted: {error}"
            core.record_observed_of(run_id, lambda seq, t: RunParked(seq, t, attempt, why))

    async def _resumed(
        self, run_id: str, due: RestartDue, newest: Manifest | None, damaged: tuple[DamagedCheckpoint, ...]
    ) -> bool:
        """Start what was chosen and waited for its turn; false where the run begins anew. Raises `MissionError`."""
        core, chosen, spec = self._core, due.choices, self._core.store.run(run_id).spec
        assert chosen is not None
        request = Resume(
            id=0, run=run_id, accept=True, assignments=chosen.assignments, remedies=chosen.remedies,
            overrides=chosen.overrides,
        )  # fmt: skip
        plan: further_attempts.NextAttempt
        if spec is not None and spec.run.command is not None:
            plan = further_attempts.plan_again(core, run_id, spec, request)
        else:
            if chosen.checkpoint is not None:
                named = core.run_dir(run_id).checkpoints / chosen.checkpoint
                newest, damaged = await asyncio.to_thread(verify_checkpoint, named), ()
            if newest is None:
                return False
            plan = await further_attempts.plan_attempt(core, run_id, request, newest, request.assignments, damaged)
        if plan.verdict.grade == "refuse":
            raise UsageError(f"what was asked is refused by now: {'; '.join(it.why for it in plan.verdict.changes)}")
        # Called off, or resumed, while that was planned.
        if core.store.run(run_id).journal.restart == due:
            further_attempts.start_attempt(core, run_id, plan)
        return True


def _lacks(core: Core, run_id: str) -> str:
    """What the machine lacks for the run: memory, room on disk, a driver. It had them before: they are waited for."""
    spec = core.store.run(run_id).spec
    try:
        check_machine(core, () if spec is None else (spec,))
    except PresetError as error:
        return f"waits for the machine: {error}"
    return ""


def _variables(core: Core, run_id: str) -> str:
    """Which variables have no value anywhere any more, as a sentence. A missing order is found out when it begins."""
    known = core.store.run(run_id)
    order = core.seals.check(core.run_dir(run_id), known.journal.attempt).order
    if order is None or not core.variables.recover(order, known.spec).lack:
        return ""
    core.variables.lacking[run_id] = order
    return core.variables.why_it_waits(run_id)


def _row(runs: Runs, run_id: str, due: RestartDue) -> Row:
    journal = runs.store.run(run_id).journal
    if due.after == "request":
        return ASKED
    return Row(journal.restarts, due.number) if due.after != "failure" else Row(due.number, journal.reboots)


def start_again(
    core: Core,
    run_id: str,
    caller: Caller,
    checkpoint: str | None,
    row: Row = ASKED,
    lost: tuple[Change, ...] = (),
) -> None:
    """Start an attempt like the one before; without a checkpoint it begins anew. Raises `MissionError`.

    `lost` says what went with newer checkpoints that are damaged.
    """
    spec = core.store.run(run_id).spec
    assert spec is not None
    check_machine(core, (spec,))
    terms = further_attempts.terms_before(core, run_id, checkpoint) or AS_IT_WAS
    # A checkpoint is called by its timesteps.
    timesteps = int(checkpoint) if checkpoint is not None and checkpoint.isdecimal() else 0
    terms = further_attempts.with_limit(core, run_id, timesteps, terms)
    further_attempts.start_next_attempt(core, run_id, spec, caller, checkpoint, terms=terms, changes=lost, row=row)
