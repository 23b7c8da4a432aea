"""Which run a run is held against: the best, or the previous, of the finished ones of the same task. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import get_args

from mission_tui.fleet.events.metrics import RETURN, number
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.state.preferences import ChartSettings, GhostWord

_WORDS: tuple[GhostWord, ...] = get_args(GhostWord)


def ghost_of(view: RunView, runs: Iterable[RunView], which: str) -> RunView | None:
    """The finished run among `runs` that `which` means for `view`; None where there is none, or nothing is meant."""
    if not which or not view.task:
        return None
    finished = [
        run for run in runs if run.task == view.task and run.outcome == "finished" and run.id != view.id and run.update
    ]
    if which == "previous":
        before = [run for run in finished if run.created_t < view.created_t]
        return max(before, key=lambda run: run.created_t, default=None)
    return max(finished, key=_last_return, default=None)


def _last_return(run: RunView) -> float:
    value = number(run.metrics.get(RETURN))
    return value if value is not None and math.isfinite(value) else -math.inf


def turn_ghost(settings: ChartSettings, view: RunView, runs: Iterable[RunView]) -> str:
    """Draw the next of none, the best and the previous run that there is; what that is, in a sentence."""
    runs = tuple(runs)
    words = _WORDS[_WORDS.index(settings.ghost) + 1 :] if settings.ghost else _WORDS
    shown = ghost_of(view, runs, settings.ghost)
    for word in words:
        ghost = ghost_of(view, runs, word)
        if ghost is not None and (shown is None or ghost.id != shown.id):
            settings.ghost = word
            return f"beside it as a dotted ghost: {ghost.name}, the {word} finished run of the same task"
    if settings.ghost:
        settings.ghost = ""
        return "no ghost"
    return f"no other run of {view.task or 'the same task'} has finished: there is no ghost to draw"
