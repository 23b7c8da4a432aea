"""When a new run's turn comes: it is queued while its own limits forbid a start, with the reason, and begins by itself.

Nothing of this is written down: the run is on disk without an attempt, so the next supervisor holds it back as well.
"""

from __future__ import annotations

from collections.abc import Callable

from mission_tui.fleet.events import ENDING
from mission_tui.fleet.observations import WaitSeen
from mission_tui.fleet.outcome import Killed
from mission_tui.fleet.spec import Spec
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending import abandon
from mission_tui.supervisor.run import LiveRun

__all__ = ["held_back", "lacks", "take_turn"]


def held_back(core: Core, run: LiveRun, turn: Callable[[], None]) -> bool:
    """Whether the run that was never begun has to wait; `turn` is what begins it then."""
    why = lacks(core, run.spec)
    if run.attempt > 0 or (why is None and not core.store.run(run.id).told.asked & ENDING):
        return False
    run.turn = turn
    core.see(run.id, WaitSeen(why or ""))
    return True


def take_turn(core: Core, run: LiveRun) -> None:
    """Once a beat: begin a run that waits, when it may; end one that somebody ended meanwhile."""
    if core.store.run(run.id).told.asked & ENDING:
        abandon(core, run, Killed(checkpoint=None, cause="taken from the queue on request; it never began"))
        return
    turn, run.turn = run.turn, None
    if turn is not None:
        turn()


def lacks(core: Core, spec: Spec | None) -> str | None:
    """Which of its own limits keeps a run of `spec` from beginning now, in a sentence; None when it may."""
    least = spec.keep.limits.disk_free if spec is not None else 0
    free = core.host.disk_free()
    if not least or free is None or free >= least:
        return None
    return f"waits for the disk: {_size(free)} free, keep.limits.disk_free asks for {_size(least)}"


def _size(size_bytes: int) -> str:
    """In the decimal units in which the limit is written."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 10**9 else f"{size_bytes / 1e6:.0f} MB"
