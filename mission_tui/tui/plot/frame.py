"""The axes of a chart: how a width and a height are shared out, the numbers and signs beside the dots, the crosshair.

The crosshair is an update of the run, so that it stays where it is when the axis changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, fit, line
from mission_tui.tui.plot.canvas import DOTS_ACROSS, DOTS_UP, Canvas
from mission_tui.tui.plot.curve import Side
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
