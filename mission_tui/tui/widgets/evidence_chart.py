"""A finding drawn on the curve that shows it: threshold, what the rule looked at, and the incident as a shaded band.

Import it late: it brings the plotting library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual_plot import HiResMode
from textual_plot.axis_formatter import NumericAxisFormatter

from mission_tui.fleet.findings import Finding
from mission_tui.tui import colours, numbers
from mission_tui.tui.evidence import Points, looked_from
from mission_tui.tui.widgets.plain_chart import PlainChart

__all__ = ["BAND", "EvidenceChart"]

BAND = "░"
_FRAME_CELLS = 2
_HEADROOM = 0.06


class _Updates(NumericAxisFormatter):
    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [numbers.count(int(tick)) if tick >= 0 and tick == int(tick) else "" for tick in ticks]


class EvidenceChart(PlainChart):
    """Over updates, because that is how findings and logs name places. The band is as fine as the size is large."""

    X_FORMATTER: ClassVar[type[NumericAxisFormatter]] = _Updates

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[Finding, Points] | None = None

    def on_resize(self) -> None:
        """Another size is another picture."""
        if self._shown is not None:
            self.draw_finding(*self._shown)

    def draw_finding(self, finding: Finding, points: Points) -> None:
        """Draw `finding` on the curve of its signal over updates; fewer than two points draw nothing."""
        self._shown = finding, points
        self.clear()
        if len(points) < 2:
            return
        alarm = str(colours.severity_style(finding.severity))
        low, high = self._scale(points, finding.threshold)
        first, last = points[0][0], points[-1][0]
        self.set_xlimits(first, last)
        self.set_ylimits(low, high)
        self._shade(max(first, finding.first_update), min(last, finding.last_update), low, high)
        if finding.threshold is not None:
            level = finding.threshold
            self.plot([first, last], [level, level], line_style=alarm, hires_mode=HiResMode.BRAILLE)
        self.draw_curve(points)
        if looked_from(finding) < finding.first_update and looked_from(finding) >= first:
            self.add_v_line(looked_from(finding), line_style=str(colours.LINE))
        if first <= finding.first_update <= last:
            self.add_v_line(finding.first_update, line_style=alarm)

    def _scale(self, points: Points, threshold: float | None) -> tuple[float, float]:
        """From the least to the greatest value, the threshold among them, with some room beyond."""
        values = [value for _, low, high in points for value in (low, high)]
        values += [] if threshold is None else [threshold]
        least, greatest = min(values), max(values)
        room = _HEADROOM * (greatest - least) or 0.5 * abs(greatest) or 1.0
        return least - room, greatest + room

    def _shade(self, first: float, last: float, low: float, high: float) -> None:
        """Fill the cells between two updates with a pattern, which is seen without colour too."""
        columns = max(1, self.size.width - self.margin_left - _FRAME_CELLS)
        rows = max(1, self.size.height - self.margin_bottom - _FRAME_CELLS)
        if last <= first:
            return
        across = [first + (last - first) * at / (2 * columns) for at in range(2 * columns + 1)]
        up = [low + (high - low) * at / (2 * rows) for at in range(2 * rows + 1)]
        cells = [(x, y) for x in across for y in up]
        self.scatter([x for x, _ in cells], [y for _, y in cells], marker=BAND, marker_style=str(colours.TRACK))
