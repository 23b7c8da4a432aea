"""Several runs beside each other: their curves over each other, and below what came of them and what differs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.strip import Strip

from mission_tui.errors import MissionError
from mission_tui.fleet.compare import Axis, Comparison, Curve, letter
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Compare
from mission_tui.present import numbers
from mission_tui.tui.actions import Move
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.metrics import metric_title
from mission_tui.tui.drawing.strips import line
from mission_tui.tui.plot.canvas import DOTS_UP, Canvas
from mission_tui.tui.plot.frame import Frame, down_of, frame_for, framed, numbers_beside
from mission_tui.tui.plot.scale import Scale, scale_of
from mission_tui.tui.screens.sheet import SCROLLING, HintLine, still_open
from mission_tui.tui.sections.comparison import HUES, comparison
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.preferences import Over
from mission_tui.tui.widgets.lines import Lines, ScrollLines

_AROUND, _LEAST_CHART = 2, 8
_HINT = "t steps or time  ↑↓ scroll  F5 again  Esc back"
_INSIDE, _APART, _PLACES = 0.97, 0.04, 8
_BEHIND, _DRAWN = 1, 2


class CompareScreen(Screen[None], inherit_bindings=False):
    """Asked for once, and again with F5 or for the other axis: numbers that run away cannot be compared."""

    CSS_PATH = "compare.tcss"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,c", "back", "back"),
        Binding("t", "turn", "steps or time"),
        Binding("f5", "again", "again"),
        *SCROLLING,
    ]

    def __init__(self, app_context: AppContext, runs: tuple[RunView, ...]) -> None:
        super().__init__()
        self._app_context = app_context
        self._runs = runs
        self._by: Axis = "step"
        self._found: Comparison | None = None
        self._trouble = ""

    def compose(self) -> ComposeResult:
        """Title, curves, tables, hint."""
        yield ScrollLines(self._title, id="compare-title")
        yield Overlay()
        yield ScrollLines(self._lines, id="compare-lines")
        yield HintLine(lambda: f" {_HINT}", id="compare-hint")

    def on_mount(self) -> None:
        """Ask."""
        self._app_context.start(self._ask())

    async def _ask(self) -> None:
        ids, by = tuple(view.id for view in self._runs), self._by
        try:
            reply = await self._app_context.ask(lambda id_: Compare(id=id_, runs=ids, by=by))
        except MissionError as error:
            self._trouble = str(error)
        else:
            if by != self._by:
                return
            self._found, self._trouble = msgspec.convert(reply.comparison, Comparison), ""
        if still_open(self):
            self._draw()

    def _draw(self) -> None:
        if self._found is not None:
            overlay = self.query_one(Overlay)
            overlay.display = any(len(curve.x) > 1 for curve in (*self._found.curves, *self._found.bands))
            overlay.styles.height = self._chart_rows(len(comparison(self._found, self.size.width)))
            overlay.draw_comparison(self._found)
        for widget in self.query(ScrollLines):
            widget.redraw()

    def _chart_rows(self, lines: int) -> int:
        """What the tables leave of the screen, and two fifths of it where they are long."""
        rows = self.size.height - _AROUND
        return max(_LEAST_CHART, rows * 2 // 5, rows - lines)

    def on_resize(self) -> None:
        """Share the rows out again."""
        self._draw()

    def _title(self, width: int) -> list[Strip]:
        found = self._found
        said = f" compare {len(self._runs)} runs"
        if found is None:
            return [line([(said, colours.BOLD), ("" if self._trouble else ": asking…", colours.QUIET)], width)]
        over = "seconds of training" if found.by == "time" else "timesteps"
        place = self.query_one("#compare-lines", ScrollLines).place
        parts = [
            (said, colours.BOLD),
            (f"  {metric_title(found.metric)} over {over}", colours.INK),
            (_span(found), colours.QUIET),
        ]
        return [line([*parts, (f"  {place}" if place else "", colours.QUIET)], width)]

    def _lines(self, width: int) -> list[Strip]:
        if self._trouble:
            return [line([(f" {self._trouble}", colours.ALARM)], width)]
        return comparison(self._found, width) if self._found is not None else []

    def action_scroll_to(self, how: Move) -> None:
        """Scroll the tables."""
        self.query_one("#compare-lines", ScrollLines).move(how)
        self.query_one("#compare-title", ScrollLines).redraw()

    def action_turn(self) -> None:
        """Over the other axis."""
        self._by = "step" if self._by == "time" else "time"
        self._app_context.start(self._ask())

    def action_again(self) -> None:
        """The same runs as they are now."""
        self._app_context.start(self._ask())

    def action_back(self) -> None:
        """Back one layer."""
        self.dismiss(None)


def _span(found: Comparison) -> str:
    if found.span is None:
        return ""
    say = numbers.duration if found.by == "time" else numbers.compact
    return f"  area up to {say(found.span[1])}"


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
