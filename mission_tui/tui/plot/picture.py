"""The chart itself as lines: curves on their scales, bands, marks and crosshair, inside two axes and above a third; how
width and height are shared out between them, and the numbers and signs beside the dots.

The crosshair is an update of the run, so that it stays where it is when the axis changes.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.events.findings import GRAVITY
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.present import numbers
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import SEVERITY_SHAPES
from mission_tui.tui.drawing.strips import Part, fit, fit_middle, line, literal
from mission_tui.tui.plot.canvas import DOTS_ACROSS, DOTS_UP, Canvas
from mission_tui.tui.plot.curve import Ghost, MarkKind, Marks, ScaledCurve, Side
from mission_tui.tui.plot.scale import Ruler, Scale, ticks_over
from mission_tui.tui.state.preferences import Over

LABEL = 8
"""Cells of the numbers beside an axis."""
BELOW = 2
"""Rows of the axis of places and its numbers."""
_ROWS_A_TICK, _COLUMNS_A_TICK = 3, 13
_TICKS_LEAST = 4
"""With fewer round values in sight a low axis often has a single number, which says nothing of its scale."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A picture of `columns` by `rows` cells that begins at column `left` and reaches from `low` to `high`."""

    left: int
    columns: int
    rows: int
    low: float
    high: float
    right: bool

    @property
    def roomy(self) -> bool:
        """Whether a picture fits."""
        return self.columns > 1 and self.rows > 1

    def across(self, place: float) -> int:
        """The dot from the left at which `place` lies."""
        share = (place - self.low) / (self.high - self.low)
        return round(max(0.0, min(share, 1.0)) * (self.columns * DOTS_ACROSS - 1))

    def column(self, place: float) -> int:
        """The column in which `place` lies."""
        return self.across(place) // DOTS_ACROSS

    def place(self, column: int) -> float:
        """What lies in the middle of a column."""
        share = (column + 0.5) / max(1, self.columns)
        return self.low + max(0.0, min(share, 1.0)) * (self.high - self.low)


def frame_for(width: int, height: int, reach: tuple[float, float], sides: Sequence[Side]) -> Frame:
    """A frame that fills `width` by `height` cells, with numbers at the right where an axis is there."""
    right = "right" in sides
    columns = width - LABEL - 1 - (LABEL + 1 if right else 0)
    return Frame(LABEL + 1, max(0, columns), max(0, height - BELOW), *reach, right)


def framed(
    frame: Frame,
    canvas: Canvas,
    over: Over,
    left: Mapping[int, Part],
    right: Mapping[int, Part] | None = None,
    signs: Iterable[tuple[int, Part]] = (),
) -> list[Strip]:
    """The picture between its axes: words beside its rows, signs by column on the lower axis, places below."""
    width = frame.left + frame.columns + (LABEL + 1 if frame.right else 0)
    none: Part = ("", colours.QUIET)
    strips: list[Strip] = []
    for row, parts in enumerate(canvas.lines()):
        word, style = left.get(row, none)
        whole: list[Part] = [(fit(word, LABEL, "right"), style), ("┤" if word else "│", colours.LINE), *parts]
        if frame.right:
            word, style = (right or {}).get(row, none)
            whole += [("├" if word else "│", colours.LINE), (fit(word, LABEL), style)]
        strips.append(line(whole, width))
    return [*strips, *_below(frame, over, signs, width)]


def numbers_beside(scale: Scale, rows: int, style: Style = colours.QUIET) -> dict[int, Part]:
    """By row the round values of a scale."""
    found: dict[int, Part] = {}
    for value, word in scale.ticks(max(2, min(rows // 2, _TICKS_LEAST), rows // _ROWS_A_TICK)):
        found[(down_of(value, scale, rows) or 0) // DOTS_UP] = word, style
    return found


def down_of(value: float, scale: Scale, rows: int) -> int | None:
    """The dot from the top of `rows` at which `value` lies; None where it has no place."""
    share = scale.share(value)
    return None if share is None else round((1 - share) * (rows * DOTS_UP - 1))


def downs_of(values: Sequence[float], scale: Scale, rows: int) -> list[int | None]:
    """`down_of` for each value, many at once."""
    span = scale.high - scale.low
    if scale.kind != "linear" or not 0 < span < math.inf:
        return [down_of(value, scale, rows) for value in values]
    high, dots = scale.high, (rows * DOTS_UP - 1) / span
    return [round((high - value) * dots) if math.isfinite(value) else None for value in values]


def _below(frame: Frame, over: Over, signs: Iterable[tuple[int, Part]], width: int) -> list[Strip]:
    rule: list[Part] = [("─", colours.LINE)] * frame.columns
    words = [" "] * width
    end = 0
    for place, word in ticks_over(over, frame.low, frame.high, max(2, frame.columns // _COLUMNS_A_TICK)):
        column = frame.column(place)
        rule[column] = ("┴", colours.LINE)
        begin = max(end, min(frame.left + column - cell_len(word) // 2, width - cell_len(word)))
        if begin + cell_len(word) <= width and begin <= frame.left + column:
            words[begin : begin + cell_len(word)] = word
            end = begin + cell_len(word) + 1
    for column, (sign, style) in signs:
        for at, char in enumerate(sign, column):
            if at < frame.columns:
                rule[at] = char, style
    edge: list[Part] = [(" " * LABEL + "└", colours.LINE), *rule, ("┘" if frame.right else "", colours.LINE)]
    return [line(edge, width), line([("".join(words), colours.QUIET)], width)]


class Crosshair:
    """`update` is None while there is none."""

    def __init__(self) -> None:
        self.update: int | None = None

    def turn(self, ruler: Ruler | None) -> None:
        """Take it away, or put it on the newest update."""
        self.update = ruler.updates[-1] if self.update is None and ruler is not None and ruler.updates else None

    def point(self, ruler: Ruler, place: float) -> None:
        """Put it on the update whose end lies nearest to `place`."""
        if ruler.updates:
            nearest = min(range(len(ruler.places)), key=lambda at: abs(ruler.places[at] - place))
            self.update = ruler.updates[nearest]

    def step(self, ruler: Ruler, frame: Frame, by: int) -> None:
        """Move it by at least `by` columns, to the end of a bucket; at either end of the run it stays."""
        if self.update is None or not ruler.updates or by == 0:
            return
        at = ruler.bucket(self.update)
        at = len(ruler.updates) - 1 if at is None else at
        wanted, way = frame.column(ruler.places[at]) + by, 1 if by > 0 else -1
        while 0 <= at + way < len(ruler.updates) and (wanted - frame.column(ruler.places[at])) * way > 0:
            at += way
        self.update = ruler.updates[at]


_LETTER_EVERY = 24
"""Columns between the letters of one curve."""
_BAND = Style(bgcolor=colours.PALETTE.panel)
_CROSS = Style(bgcolor=colours.PALETTE.chosen)
_BEHIND, _FAINT, _DRAWN = 1, 2, 3
_AHEAD = 0.5
"""Of a run's own stretch: so much of what a ghost did after it is shown."""
_GHOST_EVERY, _GHOST_NAME = 3, 24
GHOST_SIGN, BEST_SIGN = "·", "▾"
_RAISED = "░"


MARKS: Mapping[MarkKind, tuple[str, Style, str]] = {
    "set": ("│", colours.KEY, "set"),
    "checkpoint": ("↓", colours.GOOD, "saved"),
    "evaluation": ("■", colours.BOLD, "eval 95 % CI"),
    "event": ("‖", colours.INK, "held or ended"),
    "goal": ("✓", colours.GOOD, "goal reached"),
    "resume": (":", colours.INK, "resumed"),
}
"""Signs and words, in the order in which a later one covers an earlier one on the axis."""


_LINES: Mapping[MarkKind, Part] = {
    "set": ("│", colours.KEY),
    "resume": (":", colours.INK),
    "event": (":", colours.QUIET),
    "goal": (":", colours.GOOD),
}
"""What stands in the column of a mark, where nothing else does."""


@dataclass(frozen=True, slots=True)
class Scene:
    """All that one picture shows but the crosshair; `soft` says that the curves are smoothed.

    `goals` are values to be reached, by tag; `best` is place and value of the only curve's best, and `ghost` the
    curve of another run beside it.
    """

    sided: Sequence[ScaledCurve]
    ruler: Ruler
    marks: Marks
    soft: bool = False
    goals: Mapping[str, float] = field(default_factory=dict)
    best: tuple[float, float] | None = None
    ghost: Ghost | None = None

    @property
    def alone(self) -> bool:
        """Whether one curve is drawn, which then needs no letter."""
        return len(self.sided) == 1

    @property
    def reach(self) -> tuple[float, float] | None:
        """The first and the last place of all curves, and some of what a ghost did after; None while there are fewer
        than two places.
        """
        ends = [end for it in self.sided if (end := it.curve.ends) is not None]
        low, high = min((first for first, _ in ends), default=0.0), max((last for _, last in ends), default=0.0)
        if low >= high:
            return None
        if self.ghost is not None:
            high = max(high, min(self.ghost.points[-1][0], high + _AHEAD * (high - low)))
        return low, high


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
    style = colours.hue(on[0].curve.slot) if len(on) == 1 < len(scene.sided) else colours.QUIET
    return numbers_beside(on[0].scale, frame.rows, style)


def painted(scene: Scene, frame: Frame) -> Canvas:
    """Everything between the axes: it stays while the crosshair moves."""
    canvas = Canvas(frame.columns, frame.rows)
    _tint_bands(canvas, scene, frame)
    for it in reversed(scene.sided):
        _draw(canvas, it, scene, frame)
    for it in scene.sided:
        if it.curve.tag in scene.goals:
            draw_level(canvas, scene.goals[it.curve.tag], it.scale)
    if scene.ghost is not None and scene.alone:
        _draw_ghost(canvas, scene.ghost, scene.sided[0].scale, frame)
    _head_bands(canvas, scene, frame)
    _draw_judged(canvas, scene, frame)
    if scene.best is not None and scene.alone:
        _draw_best(canvas, scene.best, scene.sided[0].scale, frame)
    if not scene.alone:
        _name_curves(canvas, scene, frame)
    # Lines after words: a word may cross the line of a later mark, which goes on above and below it.
    _write_words(canvas, scene, frame)
    for mark in scene.marks.marks:
        if mark.kind in _LINES:
            canvas.fill(frame.column(mark.place), *_LINES[mark.kind])
    return canvas


def draw_level(canvas: Canvas, value: float, scale: Scale) -> int | None:
    """A value as loose dots from end to end, behind all curves; the row that it is in, None where it has no place."""
    down = down_of(value, scale, canvas.rows)
    if down is None or not 0 <= down < canvas.rows * DOTS_UP:
        return None
    for across in range(0, canvas.columns * DOTS_ACROSS, DOTS_ACROSS):
        canvas.dot(across, down, colours.KEY, _BEHIND)
    return down // DOTS_UP


def _draw_ghost(canvas: Canvas, ghost: Ghost, scale: Scale, frame: Frame) -> None:
    """Loose dots, which tell it apart without colours, and its name beside its end."""
    places = [place for place, _ in ghost.points]
    for across in range(0, canvas.columns * DOTS_ACROSS, _GHOST_EVERY):
        place = frame.low + across / max(1, canvas.columns * DOTS_ACROSS - 1) * (frame.high - frame.low)
        after = bisect_left(places, place)
        if 0 < after < len(places):
            (x, low), (to_x, high) = ghost.points[after - 1], ghost.points[after]
            value = low + (high - low) * (place - x) / (to_x - x) if to_x > x else high
        elif after < len(places) and places[after] == place:
            value = ghost.points[after][1]
        else:
            continue
        down = down_of(value, scale, frame.rows)
        if down is not None:
            canvas.dot(across, down, colours.QUIET, _BEHIND)
    at = max(0, bisect_right(places, frame.high) - 1)
    down = down_of(ghost.points[at][1], scale, frame.rows)
    if down is not None:
        name = fit_middle(ghost.name, min(_GHOST_NAME, cell_len(literal(ghost.name))))
        begin = min(frame.column(places[at]), frame.columns - 1) - cell_len(name)
        _write(canvas, max(0, begin), down // DOTS_UP, name, colours.QUIET)


def _draw_best(canvas: Canvas, best: tuple[float, float], scale: Scale, frame: Frame) -> None:
    """A sign above the best so far."""
    place, value = best
    down = down_of(value, scale, frame.rows)
    if down is None or not frame.low <= place <= frame.high:
        return
    column, row = frame.column(place), down // DOTS_UP
    above = next((it for it in range(row, max(-1, row - 3), -1) if canvas.is_free(column, it, 1)), None)
    if above is not None:
        canvas.glyph(column, above, BEST_SIGN, colours.GOOD)


def _write_words(canvas: Canvas, scene: Scene, frame: Frame) -> None:
    """What happened, beside its line, and what is to be reached: where nothing is drawn yet, or not at all.

    From first to last, so that where there is no room for all of them those of the last ones are left out.
    """
    _name_bands(canvas, scene, frame)
    for mark in scene.marks.marks:
        if mark.word:
            _, ink, _ = MARKS[mark.kind]
            _write(canvas, frame.column(mark.place) + 1, 0, mark.word, ink)
    for it in scene.sided:
        if it.curve.tag not in scene.goals:
            continue
        goal = scene.goals[it.curve.tag]
        word, share = f"goal {numbers.reading(goal)}", it.scale.share(goal)
        if share is not None and 0 <= share <= 1:
            row = (down_of(goal, it.scale, frame.rows) or 0) // DOTS_UP
            nearby = (row - 1, row + 1, row)
        else:
            above = share is None or share > 1
            word, nearby = (
                f"{word} {'↑' if above else '↓'}",
                (0, 1, 2) if above else (frame.rows - 1, frame.rows - 2, frame.rows - 3),
            )
        for at in nearby:
            if canvas.is_free(1, at, len(word)) or canvas.is_free(frame.columns - len(word) - 1, at, len(word)):
                begin = 1 if canvas.is_free(1, at, len(word)) else frame.columns - len(word) - 1
                canvas.text(begin, at, word, colours.KEY)
                break


def _name_bands(canvas: Canvas, scene: Scene, frame: Frame) -> None:
    """The name of each band after its sign, the most severe first, where it covers no other name and no sign of a band
    as severe: those that begin together would write into each other, so that no word could be read.
    """
    named_ones = [band for band in scene.marks.bands if band.word]
    bands = sorted(named_ones, key=lambda it: (-GRAVITY[it.severity], it.first))
    named: set[int] = set()
    for band in bands:
        first, last = frame.column(band.first), frame.column(band.last)
        cells = len(band.word) + 2
        place = range(first + 1, first + 1 + cells)
        heads = {frame.column(it.first) for it in bands if GRAVITY[it.severity] >= GRAVITY[band.severity]}
        room = last - first > cells or canvas.is_free(last + 1, 0, cells - last + first)
        if room and first not in named and not named.intersection(place) and not heads.intersection(place[:-1]):
            # With its sign again, which a more severe band that goes on here has covered.
            canvas.text(
                first, 0, f"{SEVERITY_SHAPES[band.severity]} {band.word} ", colours.severity_style(band.severity)
            )
            named.update(range(first, first + 1 + cells))


def mark_columns(canvas: Canvas, marks: Sequence[tuple[int, MarkKind, str]]) -> None:
    """A line in each of these columns, and beside it what happened there; a word that has no room is left out."""
    for column, kind, word in marks:
        _write(canvas, column + 1, 0, word, MARKS[kind][1])
    for column, kind, _ in marks:
        canvas.fill(column, *_LINES[kind])


def _write(canvas: Canvas, column: int, row: int, words: str, ink: Style) -> None:
    """Words from a cell on, or before the cell on its other side, or some rows below or above it, where they cover
    nothing; a sign that stands next to either end would read as a part of them.
    """
    cells = len(words)
    for by in (0, 1, -1, 2, -2, 3):
        # The cell before `column` is the line or the sign that the words belong to.
        for begin, apart in ((column, column + cells), (column - cells - 2, column - cells - 3)):
            alone = not 0 <= apart < canvas.columns or canvas.is_free(apart, row + by, 1)
            if alone and canvas.is_free(begin, row + by, cells):
                canvas.text(begin, row + by, words, ink)
                return


def _draw(canvas: Canvas, it: ScaledCurve, scene: Scene, frame: Frame) -> None:
    """The curve, and behind it what it was made of: raw values as loose dots, or the span of each bucket as lines."""

    curve, back = it.curve, colours.faint(it.curve.slot)
    across = [frame.across(sample.place) for sample in curve.samples]

    def dots(values: Sequence[float]) -> Iterator[tuple[int, int] | None]:
        downs = downs_of(values, it.scale, frame.rows)
        return (None if down is None else (x, down) for x, down in zip(across, downs, strict=True))

    if scene.soft:
        for dot in dots([sample.raw for sample in curve.samples]):
            if dot is not None:
                canvas.dot(*dot, back, _FAINT)
    elif scene.alone and any(sample.high > sample.low for sample in curve.samples):
        for edge in ("low", "high"):
            canvas.stroke(dots([getattr(sample, edge) for sample in curve.samples]), back, _FAINT)
    canvas.stroke(dots([sample.drawn for sample in curve.samples]), colours.hue(curve.slot), _DRAWN)


def _name_curves(canvas: Canvas, scene: Scene, frame: Frame) -> None:
    """Letters along the curves, each shifted against the next so that crossing curves can be followed."""
    for nth, it in enumerate(scene.sided):
        begin = frame.columns - 2 - nth * _LETTER_EVERY // max(2, len(scene.sided))
        for column in range(begin, 0, -_LETTER_EVERY):
            row = _row_at(it, column, frame)
            if row is not None:
                canvas.glyph(column, row, colours.letter(it.curve.slot), colours.hue(it.curve.slot) + Style(bold=True))


def _row_at(it: ScaledCurve, column: int, frame: Frame) -> int | None:
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
            canvas.glyph(column, row, "●" if scene.alone else colours.letter(it.curve.slot), colours.KEY)
