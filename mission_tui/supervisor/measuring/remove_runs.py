"""Clearing away the runs that somebody made to measure with: what lives is killed, the rest removed."""

from __future__ import annotations

from collections.abc import Sequence

from mission_tui.fleet.events.outcome import OVER
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending.trash import objection
from mission_tui.supervisor.ending.undo_launch import kill_live, undo_launch

__all__ = ["remove_runs"]


async def remove_runs(core: Core, made: Sequence[str], *, keep: bool = False) -> None:
    """Kill what lives of `made`; remove the rest, unless it is kept or somebody works with it. Raises `MissionError`
    for one that does not die.
    """
    known = [run_id for run_id in made if run_id in core.store.run_ids()]
    for run_id in known:
        await kill_live(core, run_id)
        if not keep and core.store.run(run_id).state in OVER and objection(core, run_id) is None:
            await undo_launch(core, run_id)
