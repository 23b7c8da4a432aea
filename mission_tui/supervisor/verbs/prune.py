"""Prune: of what ended long ago, whole runs or all but the best and the last checkpoint go to the trash."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from msgspec import structs

from mission_tui.fleet.events.outcome import OVER
from mission_tui.ipc.replies import Removable, RemovableReply
from mission_tui.ipc.requests import Prune
from mission_tui.records.runs.best_checkpoint import best_checkpoint
from mission_tui.records.runs.checkpoint import Manifest, list_checkpoints, newest_verified
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.trash import KEPT_S, tree_bytes
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending.removal import free, objection, to_trash

__all__ = ["prune"]


async def prune(core: Core, request: Prune) -> RemovableReply:
    """What ended before the time given, listed with its bytes; with `remove` it has gone. Raises `StorageError`."""
    items: list[Removable] = []
    for run_id in core.store.run_ids():
        await asyncio.sleep(0)
        run = core.run_dir(run_id)
        if not run.path.is_dir() or not _is_due(core, run_id, request.before_t):
            continue
        # Whose it is, only the whole of it tells.
        core.fetch(run_id)
        if not _is_due(core, run_id, request.before_t):
            continue
        name = core.name_of(run_id)
        for checkpoint, size in await asyncio.to_thread(_found, run, request):
            item = Removable(run=run_id, name=name, checkpoint=checkpoint, size_bytes=size)
            if request.remove:
                # Somebody may have resumed or removed it while its files were read.
                if not run.path.is_dir() or not _is_due(core, run_id, request.before_t):
                    break
                item = await _gone(core, item, request)
            items.append(item)
    return RemovableReply(re=request.id, items=tuple(items), kept_s=KEPT_S)


def _is_due(core: Core, run_id: str, before_t: float) -> bool:
    """Whether the run ended before `before_t`, and nobody means to go on with it.

    One that is foreign goes by its name alone, with `rm`: when it ended, and as what, is what somebody else wrote.
    """
    known = core.store.run(run_id)
    if known.journal.foreign:
        return False
    ended_t = known.journal.ended_t
    old = known.state in OVER and known.state != "parked" and ended_t is not None and ended_t < before_t
    return old and objection(core, run_id) is None


def _found(run: RunDir, request: Prune) -> list[tuple[str | None, int]]:
    """What of the run would go: all of it, or checkpoints by name; with its bytes."""
    if not request.keep:
        return [(None, tree_bytes(run.path))]
    manifests = list_checkpoints(run.checkpoints)
    kept = set(_kept(run, manifests, best="best" in request.keep))
    return [
        (manifest.name, tree_bytes(run.checkpoints / manifest.name))
        for manifest in manifests
        if manifest.name not in kept
    ]


def _kept(run: RunDir, manifests: list[Manifest], *, best: bool) -> Iterator[str]:
    """The newest checkpoint and the newest that verifies, always; and with `best` that of the highest mean return."""
    if len(manifests) < 2:
        yield from (manifest.name for manifest in manifests)
        return
    yield manifests[-1].name
    newest = newest_verified(run.checkpoints)
    if newest is None:
        # Whatever can be saved of these is for a person to find out.
        yield from (manifest.name for manifest in manifests)
    else:
        yield newest.name
    if best and (highest := best_checkpoint(run, manifests)) is not None:
        yield highest


async def _gone(core: Core, item: Removable, request: Prune) -> Removable:
    """The item as it is once it went."""
    moved = to_trash(core, item.run, item.checkpoint)
    if request.now:
        await free(core, moved)
        return item
    return structs.replace(item, trashed_t=moved.t)
