"""Tables of facts from a list of columns: one line declares a column with its words, its order and when it gives way.

What does not fit goes by rank, whole columns at a time, so that no figure is ever cut; what is sorted by stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, fit, line, literal

Row = TypeVar("Row")
Value = float | str | None

_GAP = 2
_MOST_WORDS = 34


def _ink(_row: object) -> Style:
    return colours.INK


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """At least `width` cells; `value` is what it sorts by, `rank` the higher the sooner it gives way."""

    title: str
    width: int
    text: Callable[[Row], str]
    value: Callable[[Row], Value] | None = None
    left: bool = False
    rank: int = 0
    style: Callable[[Row], Style] = _ink


def ordered(columns: Sequence[Column[Row]], rows: Sequence[Row], title: str) -> list[Row]:
    """The rows by the column of that title: names rise, numbers fall, unknown comes last; any other keeps the order."""
    value = next((column.value for column in columns if column.title == title), None)
    if value is None:
        return list(rows)

    def key(row: Row) -> tuple[bool, Any]:
        found = value(row)
        return found is None, found if isinstance(found, str) else -(found or 0.0)

    return sorted(rows, key=key)


def table(
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    width: int,
    *,
    sort: str = "",
    lead: Callable[[Row], list[Part]] | None = None,
    ground: Callable[[Row], Style | None] = lambda _row: None,
) -> list[Strip]:
    """Titles and rows; `lead` are the two cells before each, `ground` what lies under it. A click on a title sorts."""
    words = {id(column): [literal(column.text(row)) for row in rows] for column in columns}
    shown = [(column, _width(column, words[id(column)])) for column in columns]
    while len(shown) > 1 and 2 + sum(cells + _GAP for _, cells in shown) - _GAP > width:
        shown.remove(max(shown, key=lambda pair: -1 if pair[0].title == sort else pair[0].rank))
    titles: list[Part] = [("  ", colours.QUIET)]
    for column, cells in shown:
        mark = "▾" if column.title == sort else ""
        style = colours.KEY if mark else colours.QUIET
        if column.value is not None:
            style += Style(meta={"@click": f"screen.sort({column.title!r})"})
        titles += [(_cell(column.title + mark, cells, column), style), (" " * _GAP, colours.QUIET)]
    strips = [line(titles, width)]
    for at, row in enumerate(rows):
        parts = list(lead(row)) if lead is not None else [("  ", colours.INK)]
        for column, cells in shown:
            parts += [(_cell(words[id(column)][at], cells, column), column.style(row)), (" " * _GAP, colours.INK)]
        strips.append(line(parts, width, ground(row)))
    return strips


def _width(column: Column[Any], words: Sequence[str]) -> int:
    """Room for the mark of the order too, so that sorting moves nothing."""
    title = len(column.title) + (1 if column.value is not None else 0)
    return max(column.width, title, min(_MOST_WORDS, max((cell_len(word) for word in words), default=0)))


def _cell(text: str, cells: int, column: Column[Any]) -> str:
    return fit(text, cells, "left" if column.left else "right")
