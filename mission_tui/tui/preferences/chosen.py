"""What the person has chosen about the look of the screen so far, gathered from where it is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mission_tui.tui.preferences.record import Preferences

if TYPE_CHECKING:
    from mission_tui.tui.app import MissionApp

__all__ = ["chosen"]


def chosen(app: MissionApp) -> Preferences:
    """In this session, with what it took up from those before; `app` may have ended."""
    app_context, view_state = app.app_context, app.view_state
    return Preferences(
        panes=view_state.panes,
        sort=view_state.sort,
        machine_sort=app_context.machine_sort,
        log_folds=app_context.log_folds,
        redraws_hz=app.arrivals.pace.rate_hz,
        strip_s=app_context.zoom.seconds,
        chart_over=app_context.chart.over,
        chart_log=app_context.chart.log,
        chart_smoothing=app_context.chart.factor,
        chart_kept=app_context.chart.kept,
        bell=not app_context.alarm.muted,
        shares=app_context.shares.as_table(),
    )
