"""The chart itself as lines: curves on their scales, bands, marks and crosshair, inside two axes and above a third."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.events.metrics import RETURN
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import SEVERITY_SHAPES
from mission_tui.tui.drawing.metrics import faint, hue, letter
from mission_tui.tui.drawing.strips import Part
from mission_tui.tui.plot.canvas import DOTS_UP, Canvas
from mission_tui.tui.plot.curve import MarkKind, Marks, Sample, Sided
from mission_tui.tui.plot.frame import Frame, down_of, framed, numbers_beside
from mission_tui.tui.plot.scale import Ruler

_LETTER_EVERY = 24
"""Columns between the letters of one curve."""
_BAND = Style(bgcolor=colours.PALETTE.panel)
_CROSS = Style(bgcolor=colours.PALETTE.chosen)
_FAINT, _DRAWN = 1, 2
_RAISED = "░"


MARKS: Mapping[MarkKind, tuple[str, Style, str]] = {
    "set": ("│", colours.KEY, "set"),
    "checkpoint": ("↓", colours.GOOD, "saved"),
    "evaluation": ("■", colours.BOLD, "eval 95 % CI"),
    "resume": (":", colours.INK, "resumed"),
}
"""Signs and words, in the order in which a later one covers an earlier one on the axis."""


@dataclass(frozen=True, slots=True)
class Scene:
    """All that one picture shows but the crosshair; `soft` says that the curves are smoothed."""

    sided: Sequence[Sided]
    ruler: Ruler
    marks: Marks
    soft: bool = False

    @property
    def alone(self) -> bool:
        """Whether one curve is drawn, which then needs no letter."""
        return len(self.sided) == 1

    @property
    def reach(self) -> tuple[float, float] | None:
        """The first and the last place of all curves; None while there are fewer than two."""
        places = [sample.place for it in self.sided for sample in it.curve.shown]
        return (min(places), max(places)) if places and min(places) < max(places) else None


def picture(scene: Scene, frame: Frame, canvas: Canvas, at: float | None = None) -> list[Strip]:
    """The painted `canvas` of `scene` between its axes, with the crosshair at a place."""
    if at is not None:
        canvas = canvas.copy()
        _draw_cross(canvas, scene, frame, frame.column(at))
    left, right = (_numbers(scene, frame, side) for side in ("left", "right"))
    signs = [
        (frame.column(mark.place), (str(mark.attempt) if kind == "resume" else sign, ink))
        for kind, (sign, ink, _) in MARKS.items()
        for mark in scene.marks.marks
        if mark.kind == kind
    ]
    return framed(frame, canvas, scene.ruler.over, left, right, signs)


def _numbers(scene: Scene, frame: Frame, side: str) -> dict[int, Part]:
    """In the colour of the curve where an axis has one of several."""
    on = [it for it in scene.sided if it.side == side]
    if not on:
        return {}
    style = hue(on[0].curve.slot) if len(on) == 1 < len(scene.sided) else colours.QUIET
    return numbers_beside(on[0].scale, frame.rows, style)


def painted(scene: Scene, frame: Frame) -> Canvas:
    """Everything between the axes: it stays while the crosshair moves."""
    canvas = Canvas(frame.columns, frame.rows)
    _tint_bands(canvas, scene, frame)
    for it in reversed(scene.sided):
        _draw(canvas, it, scene, frame)
    for mark in scene.marks.marks:
        if mark.kind in ("set", "resume"):
            char, ink = ("│", colours.KEY) if mark.kind == "set" else (":", colours.INK)
            canvas.fill(frame.column(mark.place), char, ink)
    _head_bands(canvas, scene, frame)
    _draw_judged(canvas, scene, frame)
    if not scene.alone:
        _name_curves(canvas, scene, frame)
    return canvas


def _draw(canvas: Canvas, it: Sided, scene: Scene, frame: Frame) -> None:
    """The curve, and behind it what it was made of: raw values as loose dots, or the span of each bucket as lines."""

    def dots(values: Iterator[tuple[Sample, float]]) -> Iterator[tuple[int, int] | None]:
        for sample, value in values:
            down = down_of(value, it.scale, frame.rows)
            yield None if down is None else (frame.across(sample.place), down)

    curve, back = it.curve, faint(it.curve.slot)
    if scene.soft:
        for dot in dots((sample, sample.raw) for sample in curve.samples):
            if dot is not None:
                canvas.dot(*dot, back, _FAINT)
    elif scene.alone and any(sample.high > sample.low for sample in curve.samples):
        for edge in ("low", "high"):
            canvas.stroke(dots((sample, getattr(sample, edge)) for sample in curve.samples), back, _FAINT)
    canvas.stroke(dots((sample, sample.drawn) for sample in curve.samples), hue(curve.slot), _DRAWN)


def _name_curves(canvas: Canvas, scene: Scene, frame: Frame) -> None:
    """Letters along the curves, each shifted against the next so that crossing curves can be followed."""
    for nth, it in enumerate(scene.sided):
        begin = frame.columns - 2 - nth * _LETTER_EVERY // max(2, len(scene.sided))
        for column in range(begin, 0, -_LETTER_EVERY):
            row = _row_at(it, column, frame)
            if row is not None:
                canvas.glyph(column, row, letter(it.curve.slot), hue(it.curve.slot) + Style(bold=True))


def _row_at(it: Sided, column: int, frame: Frame) -> int | None:
    """The row in which the curve passes a column; None where it does not reach."""
    shown = it.curve.shown
    after = next((sample for sample in shown if frame.column(sample.place) >= column), None)
    if after is None or column < frame.column(shown[0].place):
        return None
    down = down_of(after.drawn, it.scale, frame.rows)
    return None if down is None else down // DOTS_UP


def _tint_bands(canvas: Canvas, scene: Scene, frame: Frame) -> None:
    for band in scene.marks.bands:
        for column in range(frame.column(band.first), frame.column(band.last) + 1):
            canvas.tint(column, _BAND)


def _head_bands(canvas: Canvas, scene: Scene, frame: Frame) -> None:
    """The top line of each band has a pattern, which is seen without colours, and begins with the finding's shape."""
    for band in scene.marks.bands:
        style, first = colours.severity_style(band.severity), frame.column(band.first)
        for column in range(first, frame.column(band.last) + 1):
            canvas.glyph(column, 0, SEVERITY_SHAPES[band.severity] if column == first else _RAISED, style)


def _draw_judged(canvas: Canvas, scene: Scene, frame: Frame) -> None:
    """Evaluations stand on the axis of the return, because that is what they are about."""
    scale = next((it.scale for it in scene.sided if it.curve.tag == RETURN), None)
    if scale is None:
        return
    for judged in scene.marks.judged:
        downs = [down_of(value, scale, frame.rows) for value in (judged.high, judged.mean, judged.low)]
        top, middle, bottom = (None if down is None else down // DOTS_UP for down in downs)
        column = frame.column(judged.place)
        if middle is None:
            continue
        for row in range(middle if top is None else top, (middle if bottom is None else bottom) + 1):
            canvas.glyph(column, row, "┬" if row == top else "┴" if row == bottom else "│", colours.BOLD)
        canvas.glyph(column, middle, "■", colours.BOLD)


def _draw_cross(canvas: Canvas, scene: Scene, frame: Frame, column: int) -> None:
    """A line from top to bottom, and on it a sign at each curve."""
    canvas.fill(column, "│", colours.KEY)
    canvas.tint(column, _CROSS)
    for it in scene.sided:
        row = _row_at(it, column, frame)
        if row is not None:
            canvas.glyph(column, row, "●" if scene.alone else letter(it.curve.slot), colours.KEY)
