"""`e`: play episodes with the newest checkpoint of a run, with progress, and show the result with its interval."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.screens.evaluation import EvaluationScreen

__all__ = ["evaluate"]


async def evaluate(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Evaluate the first of `runs`; leaving the screen lets it go on, and its result then comes as a toast."""
    view = runs[0]
    if view.last_checkpoint is None:
        app_context.toast(f"{view.name} has no checkpoint to evaluate yet; C saves one")
        return
    app_context.open(EvaluationScreen(app_context, view))
