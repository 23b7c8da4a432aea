"""Curves of several runs over each other, each with its letter at its end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from rich.style import Style

from mission_tui.fleet.compare import Comparison, Curve, letter
from mission_tui.tui.drawing import colours
from mission_tui.tui.plot.canvas import DOTS_UP, Canvas
from mission_tui.tui.plot.frame import Frame, down_of, frame_for, framed, numbers_beside
from mission_tui.tui.plot.ruler import Over
from mission_tui.tui.plot.scale import Scale, scale_of
from mission_tui.tui.sections.comparison import HUES
from mission_tui.tui.widgets.lines import Lines

__all__ = ["Overlay"]

_INSIDE, _APART, _PLACES = 0.97, 0.04, 8
_BEHIND, _DRAWN = 1, 2


class Overlay(Lines):
    """A run alone is its own line; seeds of one setting are their median between the fainter least and greatest."""

    def __init__(self) -> None:
        super().__init__(id="overlay")
        self._found: Comparison | None = None

    def draw_comparison(self, found: Comparison) -> None:
        """Draw the curves that have two points or more."""
        self._found = found
        self.redraw()

    def redraw(self) -> None:
        """The picture for the present size."""
        drawn = [entry for entry in _curves(self._found) if len(entry[1].x) > 1] if self._found is not None else []
        values = [value for _, curve, _ in drawn for column in (curve.y, curve.low, curve.high) for value in column]
        scale = scale_of(values, log=False)
        places = [place for _, curve, _ in drawn for place in (curve.x[0], curve.x[-1])]
        if self._found is None or scale is None or min(places) >= max(places):
            self.show([])
            return
        frame = frame_for(*self.size, (min(places), max(places)), ["left"])
        if not frame.roomy:
            self.show([])
            return
        canvas = Canvas(frame.columns, frame.rows)
        for _, curve, _ in drawn:
            for edge in (curve.low, curve.high):
                _stroke(canvas, curve.x, edge, colours.TRACK, _BEHIND, scale, frame)
        for _, curve, hue in drawn:
            _stroke(canvas, curve.x, curve.y, Style(color=hue), _DRAWN, scale, frame)
        _name_curves(canvas, drawn, scale, frame)
        over: Over = "run time" if self._found.by == "time" else "timesteps"
        self.show(framed(frame, canvas, over, numbers_beside(scale, frame.rows)))


def _name_curves(canvas: Canvas, drawn: Sequence[tuple[str, Curve, str]], scale: Scale, frame: Frame) -> None:
    """Each letter near its curve's end, and not where another one lies if two curves are the same."""
    for nth, (mark, curve, hue) in enumerate(drawn):
        inside = min(frame.high * _INSIDE, curve.x[-1]) - nth % _PLACES * _APART * frame.high
        at = max(1, bisect_right(curve.x, inside)) - 1
        down = down_of(curve.y[at], scale, frame.rows)
        if down is not None:
            canvas.glyph(frame.column(curve.x[at]), down // DOTS_UP, mark, Style(color=hue, bold=True))


def _curves(found: Comparison) -> Iterator[tuple[str, Curve, str]]:
    """What is drawn, with its letter and colour."""
    bands = {band.name: band for band in found.bands}
    for at, cohort in enumerate(found.cohorts):
        places = [place for place, run in enumerate(found.runs) if run.cohort == at]
        hue = HUES[at % len(HUES)]
        if len(places) > 1 and cohort.name in bands:
            yield letter(places[0]), bands[cohort.name], hue
        else:
            yield from ((letter(place), found.curves[place], hue) for place in places)


def _stroke(
    canvas: Canvas,
    places: tuple[float, ...],
    values: tuple[float, ...],
    ink: Style,
    layer: int,
    scale: Scale,
    frame: Frame,
) -> None:
    downs = (down_of(value, scale, frame.rows) for value in values)
    dots = (None if down is None else (frame.across(place), down) for place, down in zip(places, downs, strict=False))
    canvas.stroke(dots, ink, layer)
