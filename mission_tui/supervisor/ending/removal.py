"""What may be removed, and how: into the trash, or at once and for good.

Only what has ended goes to the trash: journaled, moved there whole, forgotten here; what lies there for longer than a
day is purged, a run at a time, beside the loop. A launch that is undone, and a run that was made to be measured, is
killed if it lives, and its directory is removed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

from mission_tui.errors import MissionError
from mission_tui.fleet.events.journal import FleetEvent, RunCreated, RunRenamed
from mission_tui.fleet.events.outcome import OVER, Failed
from mission_tui.fleet.store import RunRef
from mission_tui.fleet.text import clean
from mission_tui.records.atomic import StorageError
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.trash import KEPT_S, Trashed, move_to_trash, purge, trashed
from mission_tui.supervisor.ending.ladder import kill_now
from mission_tui.supervisor.host.children import task_about
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.run_directory import remove_run

EMPTYING = "emptying the trash"
END_S = 20.0


def objection(core: Core, run_id: str) -> str | None:
    """Why the run cannot be removed now; None when it can be."""
    state = core.store.run(run_id).state
    live = core.live.get(run_id)
    if live is not None and live.unseen:
        return f"it is not over: {live.unseen}"
    if live is not None or state not in OVER:
        return f"it is {state}; stop or kill it first"
    if run_id in core.unkillable or not core.is_free(run_id):
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


def to_trash(runs: Runs, run_id: str, checkpoint: str | None = None) -> Trashed:
    """Move a run to which there is no objection, or one checkpoint of it, to the trash. Raises `StorageError`.

    Not in a thread: nobody may resume the run between the check and the move.
    """
    run = runs.run_dir(run_id)
    runs.fleet.run_trashed(run_id, checkpoint)
    try:
        return move_to_trash(runs.root, run, checkpoint)
    finally:
        runs.counted.pop(run_id, None)
        if not run.path.exists():
            runs.forget(run_id)
            if (journal := runs.unwritten.pop(run_id, None)) is not None:
                journal.close()


async def free(runs: Runs, item: Trashed) -> None:
    """Delete what lies in the trash for good. Raises `StorageError`."""
    await asyncio.to_thread(purge, runs.root, item)
    runs.fleet.run_removed(item.run, item.checkpoint)


def ref_in_trash(runs: Runs, item: Trashed) -> RunRef:
    """What people call the run of `item`, and its group; its id where its journal does not say."""
    if item.checkpoint is not None:
        return RunRef(item.run, runs.name_of(item.run) or item.run, live=False)
    name, group = item.run, ""
    with suppress(OSError):
        for event in read_all(RunDir(item.path).events, FleetEvent)[0]:
            if isinstance(event, RunCreated | RunRenamed):
                name = clean(event.name)
            if isinstance(event, RunCreated):
                group = clean(event.group or "")
    return RunRef(item.run, name, live=False, group=group)


class TrashPurger:
    """Called now and then; deleting many bytes may take longer than a beat."""

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
        """Whether this user threw it away: in a runs root from elsewhere, what others threw away stays."""
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


async def kill_live(runs: Runs, run_id: str) -> None:
    """Kill the run if it lives, and wait until it has ended. Raises `MissionError` when it does not die."""
    run = runs.live.get(run_id)
    if run is None:
        return
    if run.unseen:
        raise MissionError(f"{run_id} cannot be killed: {run.unseen}")
    runs.record_verb(run, "kill")
    kill_now(runs, run)
    try:
        async with asyncio.timeout(END_S):
            await run.gone.wait()
    except TimeoutError:
        sentence = f"{run_id} could not be killed; its directory stays, and `status` shows which process hangs"
        raise MissionError(sentence) from None


async def undo_launch(runs: Runs, run_id: str) -> None:
    """Kill the run if it lives, and remove everything of it. Raises `MissionError` when it does not die, `StorageError`
    for the disk.
    """
    await kill_live(runs, run_id)
    remove_run(runs.root, runs.run_dir(run_id))
    runs.forget(run_id)
    runs.fleet.run_removed(run_id)


def left_behind(core: Core) -> list[str]:
    """Runs that were made for a measurement, as a supervisor finds them at its start: the one that measured is gone.

    One that failed stays, for its log to be read, and so does one that somebody resumed.
    """
    found = []
    for run_id in [it for it in core.store.run_ids() if core.store.run(it).journal.probe]:
        core.fetch(run_id)
        journal = core.store.run(run_id).journal
        failed = isinstance(journal.outcome, Failed)
        if journal.probe and not journal.foreign and journal.attempt <= 1 and not failed:
            found.append(run_id)
    return found


async def remove_runs(core: Core, made: Sequence[str], *, keep: bool = False) -> None:
    """Kill the live runs of `made`; remove all that have ended, unless `keep` or something works with one. Raises
    `MissionError` for one that does not die.
    """
    for run_id in made:
        await kill_live(core, run_id)
        # Somebody else may have removed it meanwhile.
        if (
            not keep
            and run_id in core.store
            and core.store.run(run_id).state in OVER
            and objection(core, run_id) is None
        ):
            await undo_launch(core, run_id)
