"""Whether a run that a restart of the machine ended goes on by itself: a function of its journal and `keep.on_reboot`.

What somebody had asked to end, or had paused or frozen, waits for that person. A machine that restarts again and again
is not helped by starting again what it ran.
"""

from __future__ import annotations

from mission_tui.fleet.events.journal import ENDING
from mission_tui.fleet.events.outcome import Failed, Finished, Killed, Lost, Outcome, Stopped
from mission_tui.fleet.history.journal_state import JournalState
from mission_tui.fleet.history.restart_policy import FORGIVEN_S, GiveUp, StartAgain

__all__ = ["REBOOTS", "after_reboot", "ended_by_reboot"]

REBOOTS = 3
"""So many reboots in a row, none after an hour of training, are enough: the next one parks the run."""


def ended_by_reboot(outcome: Outcome, *, seen: bool, terminated: bool) -> bool:
    """Whether it was the restart that ended an attempt of an earlier boot which nobody had asked to end.

    `seen`: its keeper wrote how it ended; `terminated`: by SIGTERM, as every process gets it when a machine goes down.
    """
    match outcome:
        case Finished():
            return False
        case Failed():
            return terminated
        case Lost() | Killed() | Stopped():
            return terminated or not seen


def after_reboot(journal: JournalState, lived_s: float) -> StartAgain | GiveUp | None:
    """What follows an attempt that a reboot ended after `lived_s` of training; None for nothing, or once decided."""
    if (
        not journal.rebooted
        or journal.restart is not None
        or journal.gave_up
        or journal.asked & ENDING
        or journal.was_held
    ):
        return None
    done = 0 if lived_s >= FORGIVEN_S else journal.reboots
    if done >= REBOOTS:
        return GiveUp(f"the machine was restarted {done + 1} times in a row before the run had trained for an hour")
    return StartAgain(done + 1, 0.0)
