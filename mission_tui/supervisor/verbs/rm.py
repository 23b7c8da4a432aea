"""Rm: ended runs go to the trash, where they stay whole for a day, and come back from there as they were."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from mission_tui.errors import UsageError
from mission_tui.fleet.views.refs import RunRef, resolve
from mission_tui.ipc.replies import Accepted, Removable, RemovableReply
from mission_tui.ipc.requests import GetTrash, Remove, Restore
from mission_tui.records.runs.trash import KEPT_S, Trashed, restore_from_trash, trashed, tree_bytes
from mission_tui.supervisor.catalog import resolve_run
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.disk.adoption import load_ended
from mission_tui.supervisor.disk.run_on_disk import read_run
from mission_tui.supervisor.ending.removal import free, name_in_trash, objection, to_trash

__all__ = ["in_trash", "remove", "restore"]


async def remove(core: Core, request: Remove) -> Accepted:
    """Move the runs to the trash, or free their bytes at once. Raises `UsageError` with nothing moved."""
    lying = trashed(core.root) if request.now else []
    chosen: dict[str, None] = {}
    thrown: dict[Path, Trashed] = {}
    for ref in request.runs:
        if request.now and not _known(core, ref):
            thrown |= {item.path: item for item in _meant(core, ref, lying)}
        else:
            chosen[_removable(core, ref)] = None
    for run_id in chosen:
        item = to_trash(core, run_id)
        if request.now:
            thrown[item.path] = item
    for item in thrown.values():
        await free(core, item)
    ids = dict.fromkeys([*chosen, *(item.run for item in thrown.values())])
    return Accepted(re=request.id, runs=tuple(ids))


async def restore(core: Core, request: Restore) -> Accepted:
    """Put the runs back, and checkpoints of runs that are there. Raises `UsageError` with nothing moved."""
    lying = trashed(core.root)
    wanted = {item.path: item for ref in request.runs for item in _meant(core, ref, lying)}
    for item in wanted.values():
        core.fleet.run_restored(item.run, item.checkpoint)
        restore_from_trash(core.root, item)
        if item.checkpoint is None:
            load_ended(core, read_run(core.run_dir(item.run)))
    return Accepted(re=request.id, runs=tuple(dict.fromkeys(item.run for item in wanted.values())))


async def in_trash(core: Core, request: GetTrash) -> RemovableReply:
    """What lies in the trash, with its bytes."""
    lying = trashed(core.root)
    sizes = await asyncio.to_thread(lambda: [tree_bytes(item.path) for item in lying])
    items = tuple(
        Removable(
            run=item.run,
            name=name_in_trash(core, item),
            checkpoint=item.checkpoint,
            size_bytes=size,
            trashed_t=item.t,
        )
        for item, size in zip(lying, sizes, strict=True)
    )
    return RemovableReply(re=request.id, items=items, kept_s=KEPT_S)


def _removable(core: Core, ref: str) -> str:
    """The ended run that `ref` means. Raises `UsageError` that names it when it cannot go."""
    run_id = resolve_run(core, ref)
    if (against := objection(core, run_id)) is not None:
        raise UsageError(f"cannot remove {core.store.view(run_id).name}: {against}")
    return run_id


def _known(core: Core, ref: str) -> bool:
    try:
        return bool(core.store.resolve(ref))
    except UsageError:
        return False


def _meant(core: Core, ref: str, lying: Sequence[Trashed]) -> list[Trashed]:
    """What of `lying` the words mean: a run, or the checkpoints of one. Raises `UsageError`."""
    names = {item.run: name_in_trash(core, item) for item in lying}
    if not names:
        raise UsageError(f"no run matches '{ref}': the trash is empty")
    (run_id,) = resolve(ref, [RunRef(run, name, live=False) for run, name in names.items()])
    return [item for item in lying if item.run == run_id]
