"""History: columns over updates of one run; of an ended run read from its file when first asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.fleet.history.run import setting_changes
from mission_tui.ipc.replies import HistoryReply
from mission_tui.ipc.requests import GetHistory
from mission_tui.records.files.tail import read_all
from mission_tui.supervisor.catalog import RunCatalog, resolve_run

__all__ = ["history"]


async def history(
    core: RunCatalog, request: GetHistory, rows: Callable[[str], list[MetricRecord]] | None = None
) -> HistoryReply:
    """The asked series, thinned to buckets; `rows` reads those of an ended run, by default all that its file holds."""
    run_id = resolve_run(core, request.run)
    if not core.store.run(run_id).metrics.complete and run_id not in core.live:
        read = rows or (lambda run: read_all(core.run_dir(run).metrics, MetricRecord)[0])
        core.store.load_history(run_id, await asyncio.to_thread(read, run_id))
    thinned = core.store.history(run_id, request.series, request.from_update, request.to_update, request.points)
    return HistoryReply(
        re=request.id,
        run=run_id,
        updates=thinned.updates,
        timesteps=thinned.timesteps,
        t=thinned.t,
        low=thinned.low,
        high=thinned.high,
        episodes=thinned.episodes,
        outcomes=thinned.outcomes,
        changes=tuple(it for it in setting_changes(core.store.run(run_id)) if it.update is not None),
    )
