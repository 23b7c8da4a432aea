"""What the person has chosen about the look of the screen so far, gathered from where it is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mission_tui.tui.habits.record import Habits

if TYPE_CHECKING:
    from mission_tui.tui.app import MissionApp

__all__ = ["chosen"]


def chosen(app: MissionApp) -> Habits:
    """In this session, with what it took up from those before; `app` may have ended."""
    desk, outlook = app.desk, app.outlook
    return Habits(
        panes=outlook.panes,
        sort=outlook.sort,
        machine_sort=desk.machine_sort,
        log_folds=desk.log_folds,
        redraws_hz=app.arrivals.pace.rate_hz,
        strip_s=desk.zoom.seconds,
        chart_over=desk.chart.over,
        chart_log=desk.chart.log,
        chart_smoothing=desk.chart.factor,
        chart_kept=desk.chart.kept,
        bell=not desk.alarm.muted,
        shares=desk.shares.as_table(),
    )
