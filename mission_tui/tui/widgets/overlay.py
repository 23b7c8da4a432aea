"""Curves of several runs over each other, each with its letter at its end. Import it late: it brings a library."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import ClassVar

from textual_plot import HiResMode
from textual_plot.axis_formatter import NumericAxisFormatter

from mission_tui.fleet.compare import Comparison, Curve, letter
from mission_tui.tui import colours, numbers
from mission_tui.tui.sections.comparison import HUES
from mission_tui.tui.widgets.plain_chart import PlainChart

__all__ = ["Overlay"]

_INSIDE, _APART, _PLACES = 0.97, 0.04, 8


class _Seconds(NumericAxisFormatter):
    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [numbers.duration(tick) if tick >= 0 else "" for tick in ticks]


class Overlay(PlainChart):
    """A run alone is its own line; seeds of one setting are their median between the fainter least and greatest."""

    STEPS: ClassVar[type[NumericAxisFormatter]] = PlainChart.X_FORMATTER

    def draw_comparison(self, found: Comparison) -> int:
        """Draw the curves; returns how many have two points or more, 0 when there is nothing to draw."""
        self.clear()
        self.set_x_formatter(_Seconds() if found.by == "time" else self.STEPS())
        drawn: list[tuple[str, Curve, str]] = []
        bands = {band.name: band for band in found.bands}
        for at, cohort in enumerate(found.cohorts):
            places = [place for place, run in enumerate(found.runs) if run.cohort == at]
            hue, band = HUES[at % len(HUES)], bands.get(cohort.name) if len(places) > 1 else None
            if band is not None:
                for edge in (band.low, band.high):
                    self.plot(band.x, edge, line_style=str(colours.TRACK), hires_mode=HiResMode.BRAILLE)
                drawn.append((letter(places[0]), band, hue))
            else:
                drawn += [(letter(place), found.curves[place], hue) for place in places]
        drawn = [entry for entry in drawn if len(entry[1].x) > 1]
        for _, curve, hue in drawn:
            self.plot(curve.x, curve.y, line_style=hue, hires_mode=HiResMode.BRAILLE)
        # On the frame itself a letter would be lost, and so would one under another where two curves are the same.
        end = max((curve.x[-1] for _, curve, _ in drawn), default=0.0)
        for place, (mark, curve, hue) in enumerate(drawn):
            inside = min(end * _INSIDE, curve.x[-1]) - place % _PLACES * _APART * end
            at = max(1, bisect_right(curve.x, inside)) - 1
            self.scatter([curve.x[at]], [curve.y[at]], marker=mark, marker_style=f"{hue} bold")
        return len(drawn)
