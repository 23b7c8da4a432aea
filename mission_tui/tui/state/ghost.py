"""Which run a run is held against: of those of the same task that finished or were stopped the one that was marked, the
best, or the previous. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import get_args

from mission_tui.fleet.events.metrics import RETURN, number
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.state.preferences import ChartSettings, GhostWord

_WORDS: tuple[GhostWord, ...] = get_args(GhostWord)
_WHOLE = ("finished", "stopped")
"""Somebody may have stopped it at its best; what was killed or failed was cut off."""


def ghost_of(view: RunView, runs: Iterable[RunView], which: str, marked: str = "") -> RunView | None:
    """The run among `runs` that `which` means for `view`, `marked` being the id of one; None where there is none, or
    nothing is meant.
    """
    if not which or not view.task:
        return None
    over = [run for run in runs if run.task == view.task and run.outcome in _WHOLE and run.id != view.id and run.update]
    if which == "marked":
        return next((run for run in over if run.id == marked), None)
    if which == "previous":
        before = [run for run in over if run.created_t < view.created_t]
        return max(before, key=lambda run: run.created_t, default=None)
    return max(over, key=_last_return, default=None)


def _last_return(run: RunView) -> float:
    value = number(run.metrics.get(RETURN))
    return value if value is not None and math.isfinite(value) else -math.inf


def turn_ghost(settings: ChartSettings, view: RunView, runs: Iterable[RunView], marked: Iterable[str] = ()) -> str:
    """Draw the next of none, the one run that is `marked` besides, the best and the previous run that there is; what
    that is, in a sentence.
    """
    runs, others = tuple(runs), [run for run in marked if run != view.id]
    if len(others) == 1 and settings.ghost_run != others[0]:
        # A run that has just been marked is meant, whichever was drawn before.
        settings.ghost, settings.ghost_run = "", others[0]
    words = _WORDS[_WORDS.index(settings.ghost) + 1 :] if settings.ghost else _WORDS
    shown = ghost_of(view, runs, settings.ghost, settings.ghost_run)
    for word in words:
        ghost = ghost_of(view, runs, word, settings.ghost_run)
        if ghost is not None and (shown is None or ghost.id != shown.id):
            settings.ghost = word
            return f"beside it as a dotted ghost: {ghost.name}, the {word} run of the same task"
    if settings.ghost:
        settings.ghost, settings.ghost_run = "", ""
        return "no ghost"
    return f"no other run of {view.task or 'the same task'} has finished or was stopped: there is no ghost to draw"
