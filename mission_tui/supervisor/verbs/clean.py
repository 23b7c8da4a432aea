"""Clean: what dead runs left behind, listed with a verdict; only what is surely ours is ever removed."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from mission_tui.ipc.replies import CleanReply, LeftoverRow
from mission_tui.ipc.requests import Clean
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending.leftover_files import (
    DeadSocket,
    LeftoverFile,
    find_dead_sockets,
    find_leftover_files,
    remove_dead_socket,
    remove_leftover_file,
)
from mission_tui.supervisor.ending.leftovers import Leftover, find_leftovers, find_stale, remove_leftover
from mission_tui.supervisor.identity import open_process
from mission_tui.supervisor.meters.process_files import vram_of

__all__ = ["clean"]

DEATH_S = 3.0


async def clean(core: Core, request: Clean) -> CleanReply:
    """List everything, and remove those whose keys were named and that still pass the verdict."""
    await core.measure()
    leftovers = await asyncio.to_thread(find_leftovers, core.root, core.is_spared)
    sockets = await asyncio.to_thread(find_dead_sockets, core.root)
    wanted = set(request.remove)
    vram = {item.pid: vram_of(item.pid, core.gpu.held) for item in leftovers}
    killed = [item for item in leftovers if item.verdict == "ours" and item.key in wanted and _remove(core, item)]
    await asyncio.gather(*(_gone(core, item) for item in killed))
    gone = {item.pid for item in killed}
    stale = [_process(item, vram[item.pid], item.pid in gone) for item in leftovers]
    # Whoever is ours goes first or together with what it holds, so it holds nothing up.
    ours = {item.pid for item in leftovers if item.verdict == "ours"}
    for file in await asyncio.to_thread(find_leftover_files, core.root, core.is_spared, ours):
        removed = file.key in wanted and remove_leftover_file(file)
        if removed:
            core.fleet.leftover_removed(file.run, f"{file.kind} {file.path}")
        stale.append(_remains(file, removed))
    for dead in sockets:
        removed = dead.key in wanted and remove_dead_socket(dead)
        if removed:
            core.fleet.leftover_removed(None, f"socket {dead.path}")
        stale.append(_socket(dead, removed))
    if killed:
        await find_stale(core)
    return CleanReply(re=request.id, stale=tuple(stale))


def _remove(core: Core, leftover: Leftover) -> bool:
    if not remove_leftover(leftover):
        return False
    core.fleet.leftover_removed(leftover.run, f"process {leftover.pid}: {leftover.command}")
    return True


async def _gone(core: Core, killed: Leftover) -> None:
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


def _process(leftover: Leftover, vram_bytes: int | None, removed: bool) -> LeftoverRow:
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


def _remains(file: LeftoverFile, removed: bool) -> LeftoverRow:
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


def _socket(dead: DeadSocket, removed: bool) -> LeftoverRow:
    return LeftoverRow(
        key=dead.key,
        kind="socket",
        verdict="ours",
        name=str(dead.path),
        age_s=dead.age_s,
        removed=removed,
    )
