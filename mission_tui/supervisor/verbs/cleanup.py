"""Clean, prune, rm, restore and undo: what dead runs left behind, and ended runs on their way to the trash and back.

Of what was left behind only what is surely ours is removed. What goes to the trash stays there whole for a day, and
comes back as it was. A run launched less than ten seconds ago can be taken back as if it had never been.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, structs

from mission_tui.errors import UsageError
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.store import RunRef, resolve
from mission_tui.ipc.replies import Accepted, CleanReply, LeftoverRow, Removable, RemovableReply
from mission_tui.ipc.requests import UNDO_S, Clean, GetTrash, Prune, Remove, Restore, Undo
from mission_tui.records.runs.checkpoint import Manifest, best_checkpoint, list_checkpoints, newest_verified
from mission_tui.records.runs.layout import RUN_ID, RunDir
from mission_tui.records.runs.trash import KEPT_S, Trashed, restore_from_trash, trashed, tree_bytes
from mission_tui.supervisor.ending.leftovers import (
    DeadSocket,
    Leftover,
    LeftoverFile,
    find_dead_sockets,
    find_leftover_files,
    find_leftovers,
    find_stale,
    remove_dead_socket,
    remove_leftover,
    remove_leftover_file,
)
from mission_tui.supervisor.ending.removal import free, objection, ref_in_trash, to_trash, undo_launch
from mission_tui.supervisor.host.identity import open_process
from mission_tui.supervisor.host.process_files import vram_of
from mission_tui.supervisor.lifecycle.adoption import load_ended
from mission_tui.supervisor.runs import resolve_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.run_on_disk import read_run

DEATH_S = 3.0


async def remove(core: Core, request: Remove) -> Accepted:
    """Move the runs to the trash, or free their bytes at once. Raises `UsageError` with nothing moved."""
    lying = await _lying(core) if request.now else _Lying()
    chosen: dict[str, None] = {}
    thrown: dict[Path, Trashed] = {}
    notes: list[str] = []
    for ref in request.runs:
        if request.now and not _known(core, ref):
            thrown |= {item.path: item for item in lying.meant(ref)}
        else:
            chosen |= dict.fromkeys(_removable(core, ref, notes))
    for run_id in list(chosen):
        await asyncio.sleep(0)  # of a thousand runs each takes a moment, and others are answered meanwhile
        if (why := _against(core, run_id)) is not None:
            notes.append(why)
            del chosen[run_id]
            continue
        item = to_trash(core, run_id)
        if request.now:
            thrown[item.path] = item
    for item in thrown.values():
        await free(core, item)
    ids = dict.fromkeys([*chosen, *(item.run for item in thrown.values())])
    return Accepted(re=request.id, runs=tuple(ids), notes=tuple(notes))


async def restore(core: Core, request: Restore) -> Accepted:
    """Put the runs back, and checkpoints of runs that are there. Raises `UsageError` with nothing moved."""
    lying = await _lying(core)
    wanted = {item.path: item for ref in request.runs for item in lying.meant(ref)}
    for item in wanted.values():
        await asyncio.sleep(0)
        if not item.path.exists():
            continue  # somebody else has put it back meanwhile, or freed it
        core.fleet.run_restored(item.run, item.checkpoint)
        restore_from_trash(core.root, item)
        if item.checkpoint is None:
            load_ended(core, read_run(core.run_dir(item.run)))
    return Accepted(re=request.id, runs=tuple(dict.fromkeys(item.run for item in wanted.values())))


async def in_trash(runs: Runs, request: GetTrash) -> RemovableReply:
    """What lies in the trash, with its bytes."""
    lying = trashed(runs.root)
    sizes = await asyncio.to_thread(lambda: [tree_bytes(item.path) for item in lying])
    items = tuple(
        Removable(
            run=item.run,
            name=ref_in_trash(runs, item).name,
            checkpoint=item.checkpoint,
            size_bytes=size,
            trashed_t=item.t,
        )
        for item, size in zip(lying, sizes, strict=True)
    )
    return RemovableReply(re=request.id, items=items, kept_s=KEPT_S)


def _removable(core: Core, ref: str, notes: list[str]) -> list[str]:
    """The ended runs that `ref` means; of a group `notes` says which have to stay.

    Raises `UsageError` that names a run which cannot go, and for a group of which none can.
    """
    meant = core.store.resolve(ref)
    against = {}
    for run_id in meant:
        if (why := _against(core, run_id)) is not None:
            against[run_id] = why
    if len(against) == len(meant):
        raise UsageError(next(iter(against.values()), f"'{ref}' means no run here"))
    notes += against.values()
    return [run_id for run_id in meant if run_id not in against]


def _against(core: Core, run_id: str) -> str | None:
    """Why the run has to stay, in a sentence; None where it may go, at this moment."""
    if run_id not in core.store:
        return f"{run_id} was removed meanwhile"
    core.fetch(run_id)
    why = objection(core, run_id)
    return None if why is None else f"cannot remove {core.store.view(run_id).name}: {why}"


def _known(runs: Runs, ref: str) -> bool:
    try:
        return bool(runs.store.resolve(ref))
    except UsageError:
        return False


class _Lying(Struct, frozen=True):
    """What lies in the trash, with the words for it. They are read from each run there, so once for a request."""

    items: Mapping[str, Sequence[Trashed]] = {}
    refs: Sequence[RunRef] = ()

    def meant(self, ref: str) -> list[Trashed]:
        """What the words mean: a run, the runs of a group, or the checkpoints of one. Raises `UsageError`."""
        if not self.refs:
            raise UsageError(f"no run matches '{ref}': the trash is empty")
        # An id needs no looking through all the others.
        meant = (ref,) if ref in self.items else resolve(ref, self.refs)
        return [item for run_id in meant for item in self.items[run_id]]


async def _lying(runs: Runs) -> _Lying:
    items: dict[str, list[Trashed]] = {}
    for item in trashed(runs.root):
        items.setdefault(item.run, []).append(item)
    refs = []
    for of_run in items.values():
        await asyncio.sleep(0)
        refs.append(ref_in_trash(runs, of_run[-1]))
    return _Lying(items, refs)


async def prune(core: Core, request: Prune) -> RemovableReply:
    """What ended before the time given, listed with its bytes; with `remove` it has gone. Raises `StorageError`, and
    `UsageError` for a word that means no run.
    """
    items: list[Removable] = []
    named = tuple(dict.fromkeys(it for ref in request.runs for it in _meant(core, ref, request)))
    for run_id in named if request.runs else core.store.run_ids():
        await asyncio.sleep(0)
        run = core.run_dir(run_id)
        if not run.path.is_dir() or not _is_due(core, run_id, request.before_t):
            continue
        # Whose it is, only the whole of it tells.
        core.fetch(run_id)
        if not _is_due(core, run_id, request.before_t):
            continue
        name = core.name_of(run_id)
        for checkpoint, size in await asyncio.to_thread(_prunable, run, request):
            item = Removable(run=run_id, name=name, checkpoint=checkpoint, size_bytes=size)
            if request.remove:
                # Somebody may have resumed or removed it while its files were read.
                if not run.path.is_dir() or not _is_due(core, run_id, request.before_t):
                    break
                item = await _moved(core, item, request)
            items.append(item)
    return RemovableReply(re=request.id, items=tuple(items), kept_s=KEPT_S)


def _meant(core: Core, ref: str, request: Prune) -> Sequence[str]:
    """The runs that `ref` means; where it removes, a run that somebody else removed since it was shown is no error."""
    if request.remove and RUN_ID.fullmatch(ref) and ref not in core.store:
        return ()
    return core.store.resolve(ref)


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


def _prunable(run: RunDir, request: Prune) -> list[tuple[str | None, int]]:
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


async def _moved(runs: Runs, item: Removable, request: Prune) -> Removable:
    """The item as it is once it went."""
    moved = to_trash(runs, item.run, item.checkpoint)
    if request.now:
        await free(runs, moved)
        return item
    return structs.replace(item, trashed_t=moved.t)


async def clean(core: Core, request: Clean) -> CleanReply:
    """List everything, and remove those whose keys were named and that still pass the verdict."""
    await core.machine.measure()
    leftovers = await asyncio.to_thread(find_leftovers, core.root, core.must_be_kept)
    sockets = await asyncio.to_thread(find_dead_sockets, core.root)
    wanted = set(request.remove)
    vram = {item.pid: vram_of(item.pid, core.machine.gpu.held) for item in leftovers}
    killed = [item for item in leftovers if item.verdict == "ours" and item.key in wanted and _killed(core, item)]
    await asyncio.gather(*(_wait_until_gone(core, item) for item in killed))
    gone = {item.pid for item in killed}
    stale = [_process_row(item, vram[item.pid], item.pid in gone) for item in leftovers]
    # Whoever is ours goes first or together with what it holds, so it holds nothing up.
    ours = {item.pid for item in leftovers if item.verdict == "ours"}
    for file in await asyncio.to_thread(find_leftover_files, core.root, core.must_be_kept, ours):
        removed = file.key in wanted and remove_leftover_file(file)
        if removed:
            core.fleet.leftover_removed(file.run, f"{file.kind} {file.path}")
        stale.append(_file_row(file, removed))
    for dead in sockets:
        removed = dead.key in wanted and remove_dead_socket(dead)
        if removed:
            core.fleet.leftover_removed(None, f"socket {dead.path}")
        stale.append(_socket_row(dead, removed))
    if killed:
        await find_stale(core)
    return CleanReply(re=request.id, stale=tuple(stale))


def _killed(runs: Runs, leftover: Leftover) -> bool:
    if not remove_leftover(leftover):
        return False
    runs.fleet.leftover_removed(leftover.run, f"process {leftover.pid}: {leftover.command}")
    return True


async def _wait_until_gone(core: Core, killed: Leftover) -> None:
    """Wait a little until the killed is gone, so that the answer is true when it arrives."""
    process = open_process(killed.pid)
    if process is None:
        return
    dead = asyncio.Event()
    core.exits.watch(process, dead.set)
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(dead.wait(), DEATH_S)
    finally:
        core.exits.forget(process)
        process.close()


def _process_row(leftover: Leftover, vram_bytes: int | None, removed: bool) -> LeftoverRow:
    return LeftoverRow(
        key=leftover.key,
        kind="process",
        verdict=leftover.verdict,
        run=leftover.run,
        pid=leftover.pid,
        age_s=leftover.age_s,
        memory_bytes=leftover.memory_bytes,
        vram_bytes=vram_bytes,
        command=leftover.command,
        removed=removed,
    )


def _file_row(file: LeftoverFile, removed: bool) -> LeftoverRow:
    return LeftoverRow(
        key=file.key,
        kind=file.kind,
        verdict=file.verdict,
        run=file.run,
        name=str(file.path),
        age_s=file.age_s,
        memory_bytes=file.size_bytes,
        removed=removed,
    )


def _socket_row(dead: DeadSocket, removed: bool) -> LeftoverRow:
    return LeftoverRow(
        key=dead.key,
        kind="socket",
        verdict="ours",
        name=str(dead.path),
        age_s=dead.age_s,
        removed=removed,
    )


async def undo(core: Core, request: Undo) -> Accepted:
    """Take the launches back. Raises `UsageError` for a run that is older, with nothing undone."""
    run_ids = tuple(dict.fromkeys(resolve_run(core, ref) for ref in request.runs))
    for run_id in run_ids:
        if time.monotonic() - core.launched.get(run_id, float("-inf")) > UNDO_S:
            name, limit = core.store.view(run_id).name, f"{UNDO_S:.0f} s"
            raise UsageError(f"cannot undo {name}: it was not launched in the last {limit}; stop or kill it instead")
    await asyncio.gather(*(undo_launch(core, run_id) for run_id in run_ids))
    return Accepted(re=request.id, runs=run_ids)
