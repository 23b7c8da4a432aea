"""The one big chart of a run: a metric over timesteps. Import it late: it brings the plotting library."""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual_plot import HiResMode, PlotWidget
from textual_plot.axis_formatter import NumericAxisFormatter

from mission_tui.fleet.metrics import Metric, number
from mission_tui.ipc.messages import HistoryReply
from mission_tui.tui import numbers

__all__ = ["Chart"]

_LINE = "#56b4e9"
_BAND = "#36657f"


class _Steps(NumericAxisFormatter):
    """Ticks of the library, labelled as the rest of the screen writes numbers."""

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [numbers.compact(tick) if tick >= 0 else "" for tick in ticks]


class _Readings(NumericAxisFormatter):
    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [numbers.reading(tick) for tick in ticks]


class Chart(PlotWidget, inherit_bindings=False, can_focus=False):
    """Mean of each bucket as a line, and the bucket's span as fainter lines where a bucket holds several updates."""

    def __init__(self) -> None:
        super().__init__(id="chart", allow_pan_and_zoom=False)

    def on_mount(self) -> None:
        """Narrow margins: 80 columns are few."""
        self.margin_left, self.margin_top, self.margin_bottom = 9, 0, 1
        self.set_x_formatter(_Steps())
        self.set_y_formatter(_Readings())

    def draw(self, history: HistoryReply | None, tag: str) -> int:
        """Draw `tag` of `history`; returns the number of points, 0 when there is nothing to draw."""
        self.clear()
        points = [] if history is None else list(_points(history, tag))
        if len(points) < 2:
            return len(points)
        steps = [step for step, _, _ in points]
        if any(high > low for _, low, high in points):
            self.plot(steps, [low for _, low, _ in points], line_style=_BAND, hires_mode=HiResMode.BRAILLE)
            self.plot(steps, [high for _, _, high in points], line_style=_BAND, hires_mode=HiResMode.BRAILLE)
        means = [(low + high) / 2 for _, low, high in points]
        self.plot(steps, means, line_style=_LINE, hires_mode=HiResMode.BRAILLE)
        return len(points)


def _points(history: HistoryReply, tag: str) -> list[tuple[float, float, float]]:
    """Timesteps, minimum and maximum of those buckets that have finite values."""
    columns = zip(history.timesteps, history.low.get(tag, ()), history.high.get(tag, ()), strict=False)
    known = ((step, _finite(low), _finite(high)) for step, low, high in columns)
    return [(float(step), low, high) for step, low, high in known if low is not None and high is not None]


def _finite(metric: Metric | None) -> float | None:
    value = number(metric)
    return value if value is not None and math.isfinite(value) else None
