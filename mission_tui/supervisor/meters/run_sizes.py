"""How many bytes the shown runs have on disk: counted rarely, in a thread, and only while somebody looks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.trash import tree_bytes
from mission_tui.supervisor.core import Core

__all__ = ["RunSizes"]

LIVE_S = 60.0
ENDED_S = 3600.0
SHOWN = 256
"""Runs whose bytes are counted unasked: the live ones, and the ended ones that a snapshot holds."""

SLICE_S = 0.05
"""How long one look may count; the rest waits for the next beat."""


class RunSizes:
    """Looked at once a beat. An ended run is counted again soon after its end, and when something of it was removed."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._work: asyncio.Task[None] | None = None

    def poll(self, now: float) -> None:
        """Begin to count the runs that are due at monotonic `now`."""
        if self._work is not None and not self._work.done():
            return
        due = [run_id for run_id in self._core.store.run_ids()[:SHOWN] if self._is_due(run_id, now)]
        self._work = asyncio.create_task(self._count(due), name="sizes") if due else None
        if self._work is not None:
            self._core.duties.follow("counting bytes of runs", self._work)

    def _is_due(self, run_id: str, now: float) -> bool:
        counted = self._core.counted.get(run_id)
        if counted is None:
            return True
        live = run_id in self._core.live
        return counted.live != live or now - counted.at > (LIVE_S if live else ENDED_S)

    async def _count(self, due: Sequence[str]) -> None:
        sizes = await asyncio.to_thread(_slice, [self._core.run_dir(run_id) for run_id in due])
        for run_id, size in sizes.items():
            self._core.record_size(run_id, size)


def _slice(runs: Sequence[RunDir]) -> dict[str, int]:
    """Bytes of the first of `runs`, as many as there is time for, at least one."""
    sizes: dict[str, int] = {}
    until = time.monotonic() + SLICE_S
    for run in runs:
        sizes[run.id] = tree_bytes(run.path)
        if time.monotonic() > until:
            break
    return sizes
