"""`c`: the marked runs beside each other; one alone beside the run that was started before it."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext

__all__ = ["compare"]


async def compare(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Open the comparison, or say what there is none of."""
    # Statistics and curves are needed here alone.
    from mission_tui.fleet.compare import MOST
    from mission_tui.tui.screens.compare import CompareScreen

    if len(runs) == 1:
        known = app_context.snapshot.runs if app_context.snapshot else ()
        before = [view for view in known if _age(view) < _age(runs[0])]
        if not before:
            app_context.toast("nothing to compare it with: Space marks runs, c compares the marked ones")
            return
        runs = (max(before, key=_age), runs[0])
    if len(runs) > MOST:
        app_context.toast(f"{len(runs)} runs are marked, and {MOST} are the most that can be told apart", "warning")
        return
    # The first is what others are held against, and that is the one they came after.
    app_context.open(CompareScreen(app_context, tuple(sorted(runs, key=_age))))


def _age(view: RunView) -> tuple[float, str]:
    return view.created_t, view.id
