"""A start-up deadline of its own: a trainer that has not begun to learn by then is flagged, whatever its imports do.

The heartbeat cannot tell: it begins after the imports, and silence is judged only once training began. Nothing is
killed, because a slow import may still end; `stop` and `kill` work as always.
"""

from __future__ import annotations

import logging

from mission_tui.fleet.events.observations import FlagSeen
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.run import LiveRun

__all__ = ["watch_start"]

log = logging.getLogger(__name__)


def watch_start(core: Core, run: LiveRun, now: float, limit_s: float) -> None:
    """Raise the flag `slow-start` when the attempt has been starting for longer than `limit_s`; lower it after."""
    history = core.store.run(run.id)
    started_t = history.journal.started_t
    slow = history.state == "starting" and started_t is not None and now - started_t > limit_s
    if core.apply(run.id, FlagSeen("slow-start", raised=slow)) and slow:
        what = "builds its environments or model" if run.link is not None else "imports, or never came that far"
        log.warning("%s has been starting for more than %g s: its trainer %s", run.id, limit_s, what)
