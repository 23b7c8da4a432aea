"""The charts: of a run with legend, signs and crosshair; of a finding with its limit and incident; of compared runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.style import Style
from textual import events
from textual.message import Message

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line, wrap
from mission_tui.tui.plot.canvas import DOTS_UP, Canvas
from mission_tui.tui.plot.content import Content
from mission_tui.tui.plot.curve import MarkKind, set_word, setting_word
from mission_tui.tui.plot.legend import PaintedPanel, Placed, Stacking, grid_for, legend, signs, wall
from mission_tui.tui.plot.picture import (
    Frame,
    Scene,
    down_of,
    frame_for,
    framed,
    mark_columns,
    numbers_beside,
    painted,
    picture,
)
from mission_tui.tui.plot.scale import Scale, scale_of
from mission_tui.tui.state.history import Points, evidence_start
from mission_tui.tui.state.preferences import Over
from mission_tui.tui.state.run_status import rule_word
from mission_tui.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from mission_tui.fleet.comparison import AxisMark, Comparison
    from mission_tui.fleet.comparison_sides import Curve

BAND = "░"
_BEHIND, _DRAWN = 1, 2
_NO_ROOM = "no room for a chart: make the terminal larger, or z hides the rest"
_MARKED_RUNS = 4
_INSIDE, _APART, _PLACES = 0.97, 0.04, 8
Paint = Callable[[Canvas, Scale, Frame], None]


class Chart(Lines):
    """Draws what it is given, and says where it was clicked or dragged."""

    @dataclass
    class Pointed(Message):
        """The mouse is at `place` of the axis."""

        place: float

    @dataclass
    class Wheeled(Message):
        """The wheel was turned by `by` columns."""

        by: int

    def __init__(self) -> None:
        super().__init__(id="chart")
        self._contents: Sequence[Content] = ()
        self._stacking: Stacking | None = None
        self._chosen = ""
        self._painted: tuple[Scene, Frame, Canvas] | None = None
        self._panels: dict[str, PaintedPanel] = {}
        self._placed: Sequence[Placed] = ()

    @property
    def frame(self) -> Frame | None:
        """That of the picture, or of each picture of a wall; None while there is none."""
        return self._placed[0].frame if self._placed else None

    def draw(self, contents: Sequence[Content], stacking: Stacking | None = None, chosen: str = "") -> None:
        """Show one chart, or with a `stacking` a wall of them, in which the `chosen` metric is marked."""
        self._contents, self._stacking, self._chosen = contents, stacking, chosen
        self.redraw()

    def redraw(self) -> None:
        """Legend above, signs below, and the picture in what is left."""
        width, height = self.size
        self._placed = ()
        if not self._contents or width <= 0:
            self.show([])
            return
        if self._stacking is not None:
            grid = grid_for(width, height, len(self._contents), self._stacking)
            strips, self._placed = wall(self._contents, grid, width, self._chosen, self._panels)
            self.show(strips)
            return
        content = self._contents[0]
        above = legend(content, width)
        scene = content.scene
        if scene is None or scene.reach is None:
            self.show(above)
            return
        below = signs(scene.marks, width)
        sides = [it.side for it in scene.sided]
        frame = frame_for(width, height - len(above) - len(below), scene.reach, sides)
        if not frame.roomy:
            self.show([*above, *(line([(f" {text}", colours.WARN)], width) for text in wrap(_NO_ROOM, width - 1))])
            return
        # The crosshair moves as often as a key repeats, and painting curves is work.
        if self._painted is None or self._painted[0] is not scene or self._painted[1] != frame:
            self._painted = scene, frame, painted(scene, frame)
        self._placed = (Placed(0, frame),)
        self.show([*above, *picture(scene, frame, self._painted[2], content.at), *below])

    def _point(self, event: events.MouseEvent) -> None:
        for it in self._placed:
            column = event.x - it.x - it.frame.left
            if 0 <= column < it.frame.columns:
                event.stop()
                self.post_message(self.Pointed(it.frame.place(column)))
                return

    def on_click(self, event: events.Click) -> None:
        """A click puts the crosshair there."""
        self._point(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """The crosshair follows the pressed button."""
        if event.button:
            self._point(event)

    def wheel(self, by: int) -> None:
        """The wheel moves the crosshair."""
        self.post_message(self.Wheeled(by))


class PlainChart(Lines):
    """A chart with one axis of values, at the left; it does not react to the mouse."""

    def paint(self, values: Iterable[float], reach: tuple[float, float], over: Over, draw: Paint) -> None:
        """Draw on a canvas from the first to the last place of `reach`, scaled for `values`; blank where none fits."""
        scale, frame = scale_of(values), frame_for(*self.size, reach, ["left"])
        if scale is None or reach[0] >= reach[1] or not frame.roomy:
            self.show([])
            return
        canvas = Canvas(frame.columns, frame.rows)
        draw(canvas, scale, frame)
        self.show(framed(frame, canvas, over, numbers_beside(scale, frame.rows)))


def _stroke(
    canvas: Canvas,
    places: Sequence[float],
    values: Sequence[float],
    ink: Style,
    layer: int,
    scale: Scale,
    frame: Frame,
) -> None:
    downs = (down_of(value, scale, frame.rows) for value in values)
    dots = (None if down is None else (frame.across(place), down) for place, down in zip(places, downs, strict=False))
    canvas.stroke(dots, ink, layer)


class EvidenceChart(PlainChart):
    """A finding on the curve of its signal, over updates, because findings and logs name places by them."""

    def __init__(self) -> None:
        super().__init__(id="evidence-chart")
        self._shown: tuple[Finding, Points] | None = None
        self._happened: Sequence[tuple[int, MarkKind, str]] = ()

    def draw_finding(self, finding: Finding, points: Points, view: RunView) -> None:
        """Draw `finding` on the curve of its signal, with what happened to its run in that stretch; fewer than two
        points draw nothing.
        """
        self._shown, self._happened = (finding, points), tuple(_happened(view))
        self.redraw()

    def redraw(self) -> None:
        """The picture for the present size."""
        finding, points = self._shown or (None, [])
        if finding is None or len(points) < 2:
            self.show([])
            return
        places, lows, highs = zip(*points, strict=True)
        limit = () if finding.threshold is None else (finding.threshold,)

        def draw(canvas: Canvas, scale: Scale, frame: Frame) -> None:
            if lows != highs:
                _stroke(canvas, places, lows, colours.faint(0), _BEHIND, scale, frame)
                _stroke(canvas, places, highs, colours.faint(0), _BEHIND, scale, frame)
            middles = [(low + high) / 2 for low, high in zip(lows, highs, strict=True)]
            _stroke(canvas, places, middles, colours.hue(0), _DRAWN, scale, frame)
            _draw_incident(canvas, finding, scale, frame)
            within = [it for it in self._happened if frame.low <= it[0] <= frame.high]
            mark_columns(canvas, [(frame.column(update), kind, word) for update, kind, word in within])

        self.paint((*lows, *highs, *limit), (places[0], places[-1]), "updates", draw)


def _happened(view: RunView) -> Iterator[tuple[int, MarkKind, str]]:
    """What was set, and when it was held, resumed or ended, by updates."""
    for change in view.changes:
        if change.update is not None:
            yield change.update, "set", set_word(change)
    for moment in view.moments:
        yield moment.update, "event", moment.word


def _draw_incident(canvas: Canvas, finding: Finding, scale: Scale, frame: Frame) -> None:
    alarm = colours.severity_style(finding.severity)
    if finding.threshold is not None:
        ends, limit = (frame.low, frame.high), finding.threshold
        _stroke(canvas, ends, (limit, limit), alarm, _BEHIND, scale, frame)
    looked = evidence_start(finding)
    if frame.low <= looked < finding.first_update:
        canvas.fill(frame.column(looked), "│", colours.LINE)
    if frame.low <= finding.first_update <= frame.high:
        canvas.fill(frame.column(finding.first_update), "│", alarm)
    # A pattern is seen without colour too.
    if finding.last_update > max(frame.low, finding.first_update):
        for column in range(frame.column(finding.first_update), frame.column(finding.last_update) + 1):
            canvas.fill(column, BAND, colours.TRACK)


class ComparisonChart(PlainChart):
    """A run alone is its own line; seeds of one setting are their median between the fainter least and greatest."""

    def __init__(self) -> None:
        super().__init__(id="overlay")
        self._found: Comparison | None = None

    @property
    def found(self) -> Comparison | None:
        """What it draws."""
        return self._found

    def draw_comparison(self, found: Comparison) -> None:
        """Draw the curves that have two points or more."""
        self._found = found
        self.redraw()

    def redraw(self) -> None:
        """The picture for the present size."""
        drawn = drawn_curves(self._found) if self._found is not None else []
        if self._found is None or not drawn:
            self.show([])
            return
        values = [value for _, curve, _ in drawn for column in (curve.y, curve.low, curve.high) for value in column]
        reach = min(curve.x[0] for _, curve, _ in drawn), max(curve.x[-1] for _, curve, _ in drawn)
        happened = [it for it in _happened_to(self._found) if reach[0] <= it[0].at <= reach[1]]

        def draw(canvas: Canvas, scale: Scale, frame: Frame) -> None:
            for _, curve, _ in drawn:
                for edge in (curve.low, curve.high):
                    _stroke(canvas, curve.x, edge, colours.TRACK, _BEHIND, scale, frame)
            for _, curve, ink in drawn:
                _stroke(canvas, curve.x, curve.y, Style(color=ink), _DRAWN, scale, frame)
            _name_curves(canvas, drawn, scale, frame)
            mark_columns(canvas, [(frame.column(it.at), kind, word) for it, kind, word in happened])

        self.paint(values, reach, "run time" if self._found.by == "time" else "timesteps", draw)


def _happened_to(found: Comparison) -> Iterator[tuple[AxisMark, MarkKind, str]]:
    """What happened to each run, by its letter; nothing where the runs are too many to tell theirs apart."""
    from mission_tui.fleet.comparison import letter

    for place, run in enumerate(found.runs if len(found.runs) <= _MARKED_RUNS else ()):
        for it in run.happened:
            match it.kind:
                case "set":
                    yield it, "set", f"{letter(place)} {setting_word(it.what)}"
                case "event":
                    yield it, "event", f"{letter(place)} {it.what}"
                case "finding":
                    yield it, "event", f"{letter(place)} ▲ {rule_word(it.what)}"


def _name_curves(canvas: Canvas, drawn: Sequence[tuple[str, Curve, str]], scale: Scale, frame: Frame) -> None:
    """Each letter near its curve's end, and not where another one lies if two curves are the same."""
    for nth, (mark, curve, ink) in enumerate(drawn):
        inside = min(frame.high * _INSIDE, curve.x[-1]) - nth % _PLACES * _APART * frame.high
        at = max(1, bisect_right(curve.x, inside)) - 1
        down = down_of(curve.y[at], scale, frame.rows)
        if down is not None:
            canvas.glyph(frame.column(curve.x[at]), down // DOTS_UP, mark, Style(color=ink, bold=True))


def drawn_curves(found: Comparison) -> list[tuple[str, Curve, str]]:
    """The curves with two points or more, each with its letter and colour."""
    return [entry for entry in _curves(found) if len(entry[1].x) > 1]


def _curves(found: Comparison) -> Iterator[tuple[str, Curve, str]]:
    """What is drawn, with its letter and colour."""
    from mission_tui.fleet.comparison import letter  # loaded with statistics, which no chart of one run needs

    bands = {band.name: band for band in found.bands}
    for at, cohort in enumerate(found.cohorts):
        places = [place for place, run in enumerate(found.runs) if run.cohort == at]
        ink = colours.COHORT_HUES[at % len(colours.COHORT_HUES)]
        if len(places) > 1 and cohort.name in bands:
            yield letter(places[0]), bands[cohort.name], ink
        else:
            yield from ((letter(place), found.curves[place], ink) for place in places)
