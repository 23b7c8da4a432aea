"""Compare: runs beside each other for a screen, read from their files beside the loop."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from mission_tui.ipc.replies import ComparisonReply
from mission_tui.ipc.requests import Compare
from mission_tui.supervisor.catalog import resolve_run
from mission_tui.supervisor.core import Core

__all__ = ["compare"]

log = logging.getLogger(__name__)


async def compare(core: Core, request: Compare) -> ComparisonReply:
    """The comparison. Raises `MissionError` for runs that cannot be compared."""
    # Not before somebody compares: every start of a supervisor would wait for it.
    from mission_tui.fleet.compare import RETURN
    from mission_tui.records.runs.comparison_sides import compare_runs

    folders = [core.run_dir(resolve_run(core, ref)).path for ref in request.runs]
    found = await asyncio.to_thread(compare_runs, folders, log.warning, RETURN, request.by, request.threshold)
    return ComparisonReply(re=request.id, comparison=msgspec.to_builtins(found))
