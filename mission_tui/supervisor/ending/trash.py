"""What may be removed, and the one way in which it goes: journaled, moved to the trash whole, forgotten here.

Only what has ended goes; what lies in the trash for longer than a day is purged, a run at a time, beside the loop.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from mission_tui.errors import MissionError
from mission_tui.fleet.events.journal import FleetEvent, RunCreated, RunRenamed
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.text import clean
from mission_tui.records.files.storage import StorageError
from mission_tui.records.files.tail import read_all
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.trash import KEPT_S, Trashed, move_to_trash, purge, trashed
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.tasks import task_about

__all__ = ["TrashPurger", "free", "name_in_trash", "objection", "to_trash"]

EMPTYING = "emptying the trash"


def objection(core: Core, run_id: str) -> str | None:
    """Why the run cannot be removed now; None when it can be."""
    state = core.store.run(run_id).state
    live = core.live.get(run_id)
    if live is not None and live.unseen:
        return f"it is not over: {live.unseen}"
    if live is not None or state not in OVER:
        return f"it is {state}; stop or kill it first"
    if run_id in core.unkillable or not core.launcher.is_free(core.run_dir(run_id)):
        return "a process of it is still alive"
    if any(stale.run == run_id for stale in core.store.snapshot(time.time()).stale):
        return "processes that it left behind still run; `mission-tui clean` shows and removes them"
    if (verb := task_about(run_id)) is not None:
        return f"`{verb}` works with it; wait until that is done"
    if (journal := core.unwritten.get(run_id)) is not None:
        try:
            journal.retry()
        except StorageError as error:
            return f"its last events are not on disk yet: {error}"
    return None


def to_trash(core: Core, run_id: str, checkpoint: str | None = None) -> Trashed:
    """Move a run to which there is no objection, or one checkpoint of it, to the trash. Raises `StorageError`.

    Not in a thread: nobody may resume the run between the look at it and this.
    """
    run = core.run_dir(run_id)
    core.fleet.run_trashed(run_id, checkpoint)
    try:
        return move_to_trash(core.root, run, checkpoint)
    finally:
        core.counted.pop(run_id, None)
        if not run.path.exists():
            core.forget(run_id)
            if (journal := core.unwritten.pop(run_id, None)) is not None:
                journal.close()


async def free(core: Core, item: Trashed) -> None:
    """Give the bytes of what lies in the trash back for good. Raises `StorageError`."""
    await asyncio.to_thread(purge, core.root, item)
    core.fleet.run_removed(item.run, item.checkpoint)


def name_in_trash(core: Core, item: Trashed) -> str:
    """What people call the run of `item`; its id when its journal does not say."""
    if item.checkpoint is not None:
        return core.name_of(item.run) or item.run
    name = item.run
    with suppress(OSError):
        for event in read_all(RunDir(item.path).events, FleetEvent)[0]:
            if isinstance(event, RunCreated | RunRenamed):
                name = clean(event.name)
    return name


class TrashPurger:
    """Looked at now and then; giving many bytes back may take longer than a beat."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._work: asyncio.Task[None] | None = None

    def poll(self, now: float) -> None:
        """Purge what has lain in the trash for a day at unix time `now`."""
        if self._work is not None and not self._work.done():
            return
        try:
            due = [item for item in trashed(self._core.root) if now - item.t > KEPT_S and self._is_ours(item)]
        except StorageError as error:
            self._core.duties.fail(EMPTYING, str(error))
            return
        self._work = asyncio.create_task(self._purge(due), name="purge") if due else None

    def _is_ours(self, item: Trashed) -> bool:
        """What somebody else threw away, in a runs root that was received, is nobody's to remove."""
        run = RunDir(item.path) if item.checkpoint is None else self._core.run_dir(item.run)
        attempts = run.attempts()
        return bool(attempts) and not self._core.seals.check(run, attempts[-1], name=item.run).foreign

    async def _purge(self, due: list[Trashed]) -> None:
        failed = ""
        for item in due:
            try:
                await free(self._core, item)
            except MissionError as error:
                failed = str(error)
        if failed:
            self._core.duties.fail(EMPTYING, failed)
        else:
            self._core.duties.done(EMPTYING)
