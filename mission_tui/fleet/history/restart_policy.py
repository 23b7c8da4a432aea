"""Whether a run goes on by itself after a failure, a reboot, or an end that its engine made of it: a function of its
journal and of its own `keep.restart` and `keep.on_reboot`.

Restarts after failures (retries) are off by default. What another attempt would only repeat (settings, an environment,
numbers that are not finite) needs the user's word in `also`, and an attempt that somebody asked to end is never
followed by another. The wait before each doubles (exponential backoff), up to an hour.

After a reboot, what somebody had asked to end, or had paused or frozen, waits for that person. A machine that restarts
again and again is not helped by starting again what it ran.
"""

from __future__ import annotations

from msgspec import Struct

from mission_tui.fleet.events.journal import ENDING
from mission_tui.fleet.events.outcome import Failed, Finished, Killed, Lost, Outcome, Stopped
from mission_tui.fleet.history.journal_state import JournalState
from mission_tui.fleet.specs.spec import RestartKeep

CRASH_LOOP = 5
"""So many attempts in a row that die young are a loop, however many restarts are allowed."""

FORGIVEN_S = 3600.0
"""An attempt that lived this long was sound: what fails after it counts anew."""

AT_LIMIT = "the time limit of its job"
"""Why an engine ended an attempt that was warned of its time limit, and saved."""
LONGEST_WAIT_S = 3600.0
_ALWAYS = frozenset({"crash", "exit", "gpu_fault", "unknown"})
REBOOTS = 3
"""So many reboots in a row, none after an hour of training, are enough: the next one parks the run."""


class Row(Struct, frozen=True):
    """How many attempts in a row began by themselves, after failures and after reboots."""

    restarts: int = 0
    reboots: int = 0


ASKED = Row()
"""An attempt that somebody asked for."""


class StartAgain(Struct, frozen=True):
    """Start another attempt, restart `number` in a row, after `wait_s`."""

    number: int
    wait_s: float


class GiveUp(Struct, frozen=True):
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
        return GiveUp(f"failed within seconds {journal.short_attempts} times in a row, last: {outcome.cause}")
    lived_s = (journal.ended_t or 0.0) - (journal.started_t or 0.0)
    done = 0 if lived_s >= FORGIVEN_S else journal.restarts
    if done >= keep.most:
        return GiveUp(f"failed again after {done} {'restart' if done == 1 else 'restarts'}: {outcome.cause}")
    return StartAgain(done + 1, min(LONGEST_WAIT_S, keep.wait_s * 2.0**done))


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


def after_interruption(journal: JournalState, *, advanced: bool) -> StartAgain | GiveUp | None:
    """What follows an attempt that its engine ended, at a time limit or with its node; None for nothing, or once
    decided. As often as it takes while each attempt has `advanced`.
    """
    if not journal.interrupted or journal.restart is not None or journal.gave_up or journal.asked & ENDING:
        return None
    done = 0 if advanced else journal.reboots
    if done >= REBOOTS:
        helps = "; a longer slurm.time leaves it time to train" if journal.interrupted == AT_LIMIT else ""
        # Whether the one before these got that far is not counted.
        return GiveUp(f"its last {done} attempts ended before their first update, last: {journal.interrupted}{helps}")
    return StartAgain(done + 1, 0.0)
