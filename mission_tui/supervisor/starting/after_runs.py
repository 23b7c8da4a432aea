"""A run that was launched to follow others: it begins once all of them have ended, however they ended.

One that restarts by itself or is parked has not ended; one that was removed has.
"""

from __future__ import annotations

from mission_tui.fleet.events.outcome import Failed, outcome_word
from mission_tui.fleet.history.run import RunHistory
from mission_tui.supervisor.core import Core

__all__ = ["ends_of_others", "waits_for_others"]


def waits_for_others(core: Core, after: tuple[str, ...]) -> str:
    """Which of the runs `after` has not ended yet, in a sentence; empty when all have."""
    for run_id in after:
        run = _known(core, run_id)
        if run is not None and run.state != "ended":
            standing = ", which is parked" if run.state == "parked" else ""
            return f"waits until {run.journal.name} has ended{standing}"
    return ""


def ends_of_others(core: Core, after: tuple[str, ...]) -> tuple[str, ...]:
    """How each of the runs `after` ended, in words."""
    return tuple(_end(run_id, _known(core, run_id)) for run_id in after)


def _known(core: Core, run_id: str) -> RunHistory | None:
    try:
        return core.store.run(run_id)
    except KeyError:
        return None


def _end(run_id: str, run: RunHistory | None) -> str:
    outcome = None if run is None else run.journal.outcome
    if run is None or outcome is None:
        return f"{run_id} was removed"
    kind = f" ({outcome.kind})" if isinstance(outcome, Failed) else ""
    return f"{run.journal.name} {outcome_word(outcome)}{kind}"
