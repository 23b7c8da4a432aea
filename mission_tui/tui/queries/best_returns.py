"""The best mean return of runs, over the whole of their files: asked of the supervisor, once and one after another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mission_tui.errors import MissionError
from mission_tui.fleet.events.metrics import RETURN, number
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import GetHistory
from mission_tui.tui.app_context import AppContext

__all__ = ["MOST", "learn_best"]

MOST = 8
"""So many runs are asked for: the supervisor keeps as many whole histories of ended runs in memory."""


async def learn_best(
    app_context: AppContext, views: Sequence[RunView], known: dict[str, tuple[float, int]], told: Callable[[], None]
) -> None:
    """Put the best return and its update into `known`, by run id, for up to `MOST` runs; `told` after each."""
    for view in views[:MOST]:
        if view.id in known:
            continue
        run = view.id
        try:
            history = await app_context.ask(lambda id_, run=run: GetHistory(id=id_, run=run, series=(RETURN,)))  # type: ignore[misc]
        except MissionError:
            # Removed meanwhile, or the supervisor is gone: what is not known is not shown.
            continue
        highs = [(number(high), update) for high, update in zip(history.high[RETURN], history.updates, strict=True)]
        finite = [(high, update) for high, update in highs if high is not None and math.isfinite(high)]
        if finite:
            known[run] = max(finite, key=lambda pair: pair[0])
            told()
