"""A picture of dots, eight to a cell, with characters over them and a tint below: what charts are drawn on.

A later layer takes the cells it touches from an earlier one, so that a faint curve never thickens the one over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.style import Style

from mission_tui.tui.drawing.colours import INK
from mission_tui.tui.drawing.strips import Part

DOTS_ACROSS, DOTS_UP = 2, 4
"""Dots of one cell."""
_BRAILLE = 0x2800
_CHARACTERS = {0: " "} | {dots: chr(_BRAILLE + dots) for dots in range(1, 256)}
"""By the dots of a cell, for `str.translate`."""
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""By row and column of a cell: Unicode's numbering of braille dots."""


class Canvas:
    """`columns` by `rows` cells; dots are counted from the left and from the top."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = max(0, columns), max(0, rows)
        cells = self.columns * self.rows
        self._dots = bytearray(cells)
        self._layers = bytearray(cells)
        self._inks: list[Style] = [INK] * cells
        self._glyphs: dict[int, Part] = {}
        self._tints: dict[int, Style] = {}

    def copy(self) -> Canvas:
        """The same picture, to be drawn on."""
        other = Canvas(0, 0)
        other.columns, other.rows = self.columns, self.rows
        other._dots, other._layers, other._inks = self._dots[:], self._layers[:], self._inks[:]
        other._glyphs, other._tints = dict(self._glyphs), dict(self._tints)
        return other

    def dot(self, across: int, down: int, ink: Style, layer: int = 1) -> None:
        """One dot; outside the picture nothing is drawn."""
        column, row = across // DOTS_ACROSS, down // DOTS_UP
        if not (0 <= column < self.columns and 0 <= row < self.rows):
            return
        at = row * self.columns + column
        if layer < self._layers[at]:
            return
        if layer > self._layers[at]:
            self._dots[at] = 0
        self._layers[at], self._inks[at] = layer, ink
        self._dots[at] |= _BITS[down % DOTS_UP][across % DOTS_ACROSS]

    def stroke(self, places: Iterable[tuple[int, int] | None], ink: Style, layer: int = 1) -> None:
        """Dots joined by straight lines; None lifts the pen."""
        # Thousands of dots a picture: one loop without calls takes a third of the time of `dot` for each.
        columns, dots, layers, inks = self.columns, self._dots, self._layers, self._inks
        beyond, below = DOTS_ACROSS * columns, DOTS_UP * self.rows
        before: tuple[int, int] | None = None
        for place in places:
            if place is not None:
                (x, y), (to_x, to_y) = before or place, place
                by_x, by_y = to_x - x, to_y - y
                steps = max(abs(by_x), abs(by_y)) or 1
                for step in range(steps + 1):
                    part = step / steps
                    across, down = x + round(by_x * part), y + round(by_y * part)
                    if not (0 <= across < beyond and 0 <= down < below):
                        continue
                    at = down // DOTS_UP * columns + across // DOTS_ACROSS
                    if layer < layers[at]:
                        continue
                    if layer > layers[at]:
                        dots[at] = 0
                        layers[at] = layer
                    inks[at] = ink
                    dots[at] |= _BITS[down % DOTS_UP][across % DOTS_ACROSS]
            before = place

    def glyph(self, column: int, row: int, char: str, ink: Style) -> None:
        """A character over whatever is drawn in its cell."""
        if 0 <= column < self.columns and 0 <= row < self.rows:
            self._glyphs[row * self.columns + column] = char, ink

    def fill(self, column: int, char: str, ink: Style) -> None:
        """A character in each cell of a column where nothing is drawn so far."""
        for row in range(self.rows):
            if not self.drawn(column, row):
                self.glyph(column, row, char, ink)

    def drawn(self, column: int, row: int) -> bool:
        """Whether a cell has dots or a character; cells outside the picture do."""
        if not (0 <= column < self.columns and 0 <= row < self.rows):
            return True
        at = row * self.columns + column
        return bool(self._dots[at]) or at in self._glyphs

    def tint(self, column: int, ground: Style) -> None:
        """A background for one column; the last one given counts."""
        self._tints[column] = ground

    def lines(self) -> Iterator[list[Part]]:
        """The rows from top to bottom, neighbours of one style as one part."""
        written = {at // self.columns for at in self._glyphs}
        for row in range(self.rows):
            begin = row * self.columns
            if not self._tints and row not in written:
                yield self._plain_row(begin, begin + self.columns)
                continue
            cells = [self._cell(begin + column, column) for column in range(self.columns)]
            yield [("".join(char for char, _ in run), ink) for ink, run in _runs(cells)]

    def _plain_row(self, begin: int, end: int) -> list[Part]:
        """A row of dots alone, as most are: one pass without a tuple for each cell."""
        dots, inks = self._dots, self._inks
        parts: list[Part] = []
        first, ink = begin, INK
        for at in range(begin, end):
            own = inks[at] if dots[at] else INK
            if own is not ink:
                if at > first:
                    parts.append((dots[first:at].decode("latin-1").translate(_CHARACTERS), ink))
                first, ink = at, own
        if end > first:
            parts.append((dots[first:end].decode("latin-1").translate(_CHARACTERS), ink))
        return parts

    def _cell(self, at: int, column: int) -> Part:
        dots = self._dots[at]
        char, ink = self._glyphs.get(at) or (chr(_BRAILLE + dots) if dots else " ", self._inks[at] if dots else INK)
        return char, ink + self._tints[column] if column in self._tints else ink


def _runs(cells: Sequence[Part]) -> Iterator[tuple[Style, list[Part]]]:
    for ink, run in groupby(cells, key=lambda cell: cell[1]):
        yield ink, list(run)
