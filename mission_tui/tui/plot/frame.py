"""The axes of a chart: how a width and a height are shared out, and the numbers and marks beside the dots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.tui import colours
from mission_tui.tui.plot.axes import Side, Sided
from mission_tui.tui.plot.canvas import DOTS_ACROSS, DOTS_UP, Canvas
from mission_tui.tui.plot.hues import hue
from mission_tui.tui.plot.marks import MarkKind, Marks
from mission_tui.tui.plot.ruler import Ruler
from mission_tui.tui.strips import Part, fit, line

__all__ = ["MARKS", "Frame", "frame_for", "framed"]

LABEL = 8
"""Cells of the numbers beside an axis."""
_BELOW = 2
_ROWS_A_TICK, _COLUMNS_A_TICK = 3, 13

MARKS: Mapping[MarkKind, tuple[str, Style, str]] = {
    "set": ("│", colours.KEY, "set"),
    "checkpoint": ("↓", colours.GOOD, "saved"),
    "evaluation": ("■", colours.BOLD, "evaluated, 95%"),
    "resume": (":", colours.INK, "resumed"),
}
"""Signs and words, in the order in which a later one covers an earlier one on the axis."""


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
    return Frame(LABEL + 1, max(0, columns), max(0, height - _BELOW), *reach, right)


def framed(frame: Frame, canvas: Canvas, sided: Sequence[Sided], ruler: Ruler, marks: Marks) -> list[Strip]:
    """The picture between its axes, the lower one with marks on it and places below."""
    width = frame.left + frame.columns + (LABEL + 1 if frame.right else 0)
    left, right = _numbers(frame, sided, "left"), _numbers(frame, sided, "right")
    strips: list[Strip] = []
    for row, parts in enumerate(canvas.lines()):
        word, style = left.get(row, ("", colours.QUIET))
        whole: list[Part] = [
            (fit(word, LABEL, "right"), style),
            ("┤" if word else "│", colours.LINE),
            *parts,
        ]
        if frame.right:
            word, style = right.get(row, ("", colours.QUIET))
            whole += [("├" if word else "│", colours.LINE), (fit(word, LABEL), style)]
        strips.append(line(whole, width))
    return [*strips, *_below(frame, ruler, marks, width)]


def _numbers(frame: Frame, sided: Sequence[Sided], side: Side) -> dict[int, Part]:
    """By row what stands beside it; in the colour of the curve where the axis has one of several."""
    on = [it for it in sided if it.side == side]
    if not on:
        return {}
    style = hue(on[0].curve.slot) if len(on) == 1 < len(sided) else colours.QUIET
    scale, found = on[0].scale, {}
    for value, word in scale.ticks(max(2, frame.rows // _ROWS_A_TICK)):
        share = scale.share(value) or 0.0
        found[round((1 - share) * (frame.rows * DOTS_UP - 1)) // DOTS_UP] = word, style
    return found


def _below(frame: Frame, ruler: Ruler, marks: Marks, width: int) -> list[Strip]:
    ticks = ruler.ticks(frame.low, frame.high, max(2, frame.columns // _COLUMNS_A_TICK))
    rule: list[Part] = [("─", colours.LINE)] * frame.columns
    words = [" "] * width
    end = 0
    for place, word in ticks:
        column = frame.column(place)
        rule[column] = ("┴", colours.LINE)
        begin = max(end, min(frame.left + column - cell_len(word) // 2, width - cell_len(word)))
        if begin + cell_len(word) <= width and begin <= frame.left + column:
            words[begin : begin + cell_len(word)] = word
            end = begin + cell_len(word) + 1
    for kind, (sign, style, _) in MARKS.items():
        for mark in marks.marks:
            if mark.kind == kind:
                shown = str(mark.attempt) if kind == "resume" else sign
                for at, char in enumerate(shown, frame.column(mark.place)):
                    if at < frame.columns:
                        rule[at] = char, style
    edge: list[Part] = [(" " * LABEL + "└", colours.LINE), *rule, ("┘" if frame.right else "", colours.LINE)]
    return [line(edge, width), line([("".join(words), colours.QUIET)], width)]
