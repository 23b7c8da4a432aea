"""When a new run's turn comes: it is queued while its own limits forbid a start, with the reason, and begins by itself.

Nothing of this is written down: the run is on disk without an attempt, so the next supervisor holds it back as well.
"""

from __future__ import annotations

from collections.abc import Callable

from mission_tui.fleet.events import ENDING
from mission_tui.fleet.observations import WaitSeen
from mission_tui.fleet.outcome import Killed
from mission_tui.fleet.reservation import wanted_by
from mission_tui.fleet.spec import LimitsKeep, Spec
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending.outcome import abandon
from mission_tui.supervisor.run import LiveRun
from mission_tui.supervisor.starting.live_load import ram_left

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
    limits = spec.keep.limits if spec is not None else LimitsKeep()
    free = core.host.disk_free() if limits.disk_free else None
    if free is not None and free < limits.disk_free:
        return f"waits for the disk: {_size(free)} free, keep.limits.disk_free asks for {_size(limits.disk_free)}"
    return _memory_lack(core, spec) if spec is not None and limits.ram_free else None


def _memory_lack(core: Core, spec: Spec) -> str | None:
    """It must be left what the limit asks for, and at least what the run is going to take."""
    left, limit = ram_left(core), spec.keep.limits.ram_free
    own = wanted_by(spec, core.host.cores, None).ram_bytes
    if left is None or left >= max(limit, own):
        return None
    asked = f"keep.limits.ram_free asks for {_size(limit)}" if limit >= own else f"it takes about {_size(own)}"
    return f"waits for memory: {_size(left)} are free and promised to no run, {asked}"


def _size(size_bytes: int) -> str:
    """In the decimal units in which the limit is written."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 10**9 else f"{size_bytes / 1e6:.0f} MB"
