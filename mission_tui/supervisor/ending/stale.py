"""Processes of dead runs as every screen is told of them: found at the start and now and then, never removed here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from mission_tui.fleet.views.snapshot import StaleRun
from mission_tui.process_name import short_name
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending.leftovers import Leftover, find_leftovers
from mission_tui.supervisor.meters.vram import vram_of

__all__ = ["find_stale", "stale_runs"]


async def find_stale(core: Core) -> None:
    """Find them, off the event loop, and have the snapshot say so."""
    core.orphaned = False
    found = await asyncio.to_thread(find_leftovers, core.root, core.is_spared)
    core.store.observe_surroundings(stale=stale_runs(found, core.gpu.held, core.name_of))
    core.changed.set()


def stale_runs(
    found: Sequence[Leftover], held: Mapping[int, int | None], name_of: Callable[[str], str]
) -> tuple[StaleRun, ...]:
    """The leftovers by run. `held` are bytes of GPU memory by process."""
    by_run = groupby(sorted(found, key=lambda item: item.run), key=lambda item: item.run)
    return tuple(_of_run(run, name_of(run), list(items), held) for run, items in by_run)


def _of_run(run: str, name: str, items: Sequence[Leftover], held: Mapping[int, int | None]) -> StaleRun:
    memory = [item.memory_bytes for item in items if item.memory_bytes is not None]
    vram = [size for item in items if (size := vram_of(item.pid, held)) is not None]
    return StaleRun(
        run=run,
        name=name or short_name(run),
        processes=len(items),
        unsure=sum(item.verdict != "ours" for item in items),
        memory_bytes=sum(memory) if memory else None,
        vram_bytes=sum(vram) if vram else None,
    )
