"""Clearing away the runs that somebody made to measure with: what lives is killed, the rest removed."""

from __future__ import annotations

from collections.abc import Sequence

from mission_tui.fleet.history.outcome import OVER
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending.removing import objection
from mission_tui.supervisor.ending.taking_back import kill_live, take_back

__all__ = ["clear_away"]


async def clear_away(core: Core, made: Sequence[str], *, keep: bool = False) -> None:
    """Kill what lives of `made`; remove the rest, unless it is kept or somebody works with it. Raises `MissionError`
    for one that does not die.
    """
    known = [run_id for run_id in made if run_id in core.store.run_ids()]
    for run_id in known:
        await kill_live(core, run_id)
        if not keep and core.store.run(run_id).state in OVER and objection(core, run_id) is None:
            await take_back(core, run_id)
