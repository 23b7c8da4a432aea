"""Whether a run that failed is started again by itself: a function of its journal and of its own `keep.restart`.

Off by default. What another attempt would only repeat (settings, an environment, numbers that are no numbers) needs the
user's word in `also`, and an attempt that somebody asked to end is never followed by another.
"""

from __future__ import annotations

from dataclasses import dataclass

from mission_tui.fleet.events.journal import ENDING
from mission_tui.fleet.events.outcome import Failed
from mission_tui.fleet.history.journal_state import JournalState
from mission_tui.fleet.specs.spec import RestartKeep

__all__ = ["ASKED", "CRASH_LOOP", "FORGIVEN_S", "GiveUp", "Row", "StartAgain", "next_step"]

CRASH_LOOP = 5
"""So many attempts in a row that die young are a loop, however many restarts are allowed."""

FORGIVEN_S = 3600.0
"""An attempt that lived this long was sound: what fails after it counts anew."""

LONGEST_WAIT_S = 3600.0
_ALWAYS = frozenset({"crash", "exit", "unknown"})


@dataclass(frozen=True, slots=True)
class Row:
    """How many attempts in a row began by themselves, after failures and after reboots."""

    restarts: int = 0
    reboots: int = 0


ASKED = Row()
"""An attempt that somebody asked for."""


@dataclass(frozen=True, slots=True)
class StartAgain:
    """Start another attempt, restart `number` in a row, after `wait_s`."""

    number: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Leave it to a person; `why` is a sentence."""

    why: str


def next_step(journal: JournalState, keep: RestartKeep) -> StartAgain | GiveUp | None:
    """What follows the end of an attempt; None for nothing, or when that was decided already."""
    outcome = journal.outcome
    if not isinstance(outcome, Failed) or journal.restart is not None or journal.gave_up:
        return None
    if keep.most == 0 or outcome.kind not in _ALWAYS | set(keep.also) or journal.asked & ENDING:
        return None
    if journal.short_attempts >= CRASH_LOOP:
        return GiveUp(f"died young {journal.short_attempts} times in a row, last: {outcome.cause}")
    lived_s = (journal.ended_t or 0.0) - (journal.started_t or 0.0)
    done = 0 if lived_s >= FORGIVEN_S else journal.restarts
    if done >= keep.most:
        return GiveUp(f"failed again after {done} {'restart' if done == 1 else 'restarts'}: {outcome.cause}")
    return StartAgain(done + 1, min(LONGEST_WAIT_S, keep.wait_s * 2.0**done))
