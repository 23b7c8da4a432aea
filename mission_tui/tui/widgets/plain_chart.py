"""A curve on the plotting library's axes, written as the rest of the screen writes. Import it late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual_plot import HiResMode, PlotWidget
from textual_plot.axis_formatter import NumericAxisFormatter

from mission_tui.tui import colours, numbers
from mission_tui.tui.evidence import Points

__all__ = ["PlainChart"]

_LINE = colours.PALETTE.live
_BAND = colours.PALETTE.band


class _Steps(NumericAxisFormatter):
    """Ticks of the library, labelled as the rest of the screen writes numbers."""

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [numbers.compact(tick) if tick >= 0 else "" for tick in ticks]


class _Readings(NumericAxisFormatter):
    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [numbers.reading(tick) for tick in ticks]


class PlainChart(PlotWidget, inherit_bindings=False, can_focus=False):
    """Mean of each bucket as a line, and the bucket's span as fainter lines where a bucket holds several updates."""

    X_FORMATTER: ClassVar[type[NumericAxisFormatter]] = _Steps

    def __init__(self) -> None:
        super().__init__(id="plain-chart", allow_pan_and_zoom=False)

    def on_mount(self) -> None:
        """Narrow margins: 80 columns are few."""
        self.margin_left, self.margin_top, self.margin_bottom = 9, 0, 1
        self.set_x_formatter(self.X_FORMATTER())
        self.set_y_formatter(_Readings())

    def draw_curve(self, points: Points) -> None:
        """Draw two points or more over what is drawn already."""
        steps = [step for step, _, _ in points]
        if any(high > low for _, low, high in points):
            self.plot(steps, [low for _, low, _ in points], line_style=_BAND, hires_mode=HiResMode.BRAILLE)
            self.plot(steps, [high for _, _, high in points], line_style=_BAND, hires_mode=HiResMode.BRAILLE)
        means = [(low + high) / 2 for _, low, high in points]
        self.plot(steps, means, line_style=_LINE, hires_mode=HiResMode.BRAILLE)
