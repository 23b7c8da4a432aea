"""A picture of dots, eight to a cell, with characters over them and a tint below: what charts are drawn on.

A later layer takes the cells it touches from an earlier one, so that a faint curve never thickens the one over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.cells import cell_len
from rich.style import Style

from mission_tui.tui.drawing.colours import INK
from mission_tui.tui.drawing.strips import Part, literal

DOTS_ACROSS, DOTS_UP = 2, 4
"""Dots of one cell."""
_BRAILLE = 0x2800
_CHARACTERS = {0: " "} | {dots: chr(_BRAILLE + dots) for dots in range(1, 256)}
"""By the dots of a cell, for `str.translate`."""
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""By row and column of a cell: Unicode's numbering of braille dots."""
_RUNS = tuple(
    tuple(
        tuple(sum(_BITS[row][side] for row in range(first, last + 1)) for last in range(DOTS_UP))
        for first in range(DOTS_UP)
    )
    for side in range(DOTS_ACROSS)
)
"""By side of a cell, first and last row: the dots from one to the other."""


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
        # By columns: many points lie in one, and its dots from the least to the greatest are set together. All in one
        # loop, because a wall of charts goes through it some thousand times for each key.
        tops: dict[int, int] = {}
        bottoms: dict[int, int] = {}
        x = y = 0
        drawing = False
        for place in places:
            if place is None:
                drawing = False
                self._columns(tops, bottoms, ink, layer)
                tops, bottoms = {}, {}
                continue
            from_x, from_y = (x, y) if drawing else place
            x, y = place
            drawing = True
            across, top = from_x, from_y
            steps = abs(x - from_x)
            way, rise = (1 if x > from_x else -1), y - from_y
            for step in range(steps + 1):
                # Half of the way to the next column belongs to this one.
                end = y if step == steps else from_y + round(rise * (2 * step + 1) / (2 * steps))
                low, high = (top, end) if top < end else (end, top)
                if across not in tops:
                    tops[across], bottoms[across] = low, high
                else:
                    if low < tops[across]:
                        tops[across] = low
                    if high > bottoms[across]:
                        bottoms[across] = high
                across, top = across + way, end
        self._columns(tops, bottoms, ink, layer)

    def _columns(self, tops: dict[int, int], bottoms: dict[int, int], ink: Style, layer: int) -> None:
        for across, top in tops.items():
            self.column(across, top, bottoms[across], ink, layer)

    def column(self, across: int, top: int, bottom: int, ink: Style, layer: int = 1) -> None:
        """All dots of one column of them from `top` to `bottom`."""
        top, bottom = max(0, top), min(bottom, DOTS_UP * self.rows - 1)
        if not 0 <= across < DOTS_ACROSS * self.columns or top > bottom:
            return
        runs, dots, layers, inks = _RUNS[across % DOTS_ACROSS], self._dots, self._layers, self._inks
        row, last_row = top // DOTS_UP, bottom // DOTS_UP
        at, first = row * self.columns + across // DOTS_ACROSS, top % DOTS_UP
        while row <= last_row:
            if layer >= layers[at]:
                if layer > layers[at]:
                    dots[at] = 0
                    layers[at] = layer
                inks[at] = ink
                dots[at] |= runs[first][bottom % DOTS_UP if row == last_row else DOTS_UP - 1]
            row, at, first = row + 1, at + self.columns, 0

    def glyph(self, column: int, row: int, char: str, ink: Style) -> None:
        """A character over whatever is drawn in its cell."""
        if 0 <= column < self.columns and 0 <= row < self.rows:
            self._glyphs[row * self.columns + column] = char, ink

    def text(self, column: int, row: int, words: str, ink: Style) -> None:
        """Characters of one cell each, from a cell on; any other becomes a question mark."""
        for at, char in enumerate(literal(words), column):
            self.glyph(at, row, char if cell_len(char) == 1 else "?", ink)

    def is_free(self, column: int, row: int, cells: int) -> bool:
        """Whether nothing is drawn in so many cells from one on, and they lie in the picture."""
        return not any(self.drawn(at, row) for at in range(column, column + cells))

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
        written: dict[int, list[int]] = {}
        for at in self._glyphs:
            written.setdefault(at // self.columns, []).append(at)
        for row in range(self.rows):
            begin = row * self.columns
            if self._tints or row in written:
                yield self._written_row(begin, begin + self.columns, written.get(row, ()))
            else:
                yield self._plain_row(begin, begin + self.columns)

    def _written_row(self, begin: int, end: int, written: Iterable[int]) -> list[Part]:
        chars = list(self._dots[begin:end].decode("latin-1").translate(_CHARACTERS))
        inks = [ink if dots else INK for dots, ink in zip(self._dots[begin:end], self._inks[begin:end], strict=True)]
        for at in written:
            chars[at - begin], inks[at - begin] = self._glyphs[at]
        for column, ground in self._tints.items():
            if 0 <= column < self.columns:
                inks[column] += ground
        parts: list[Part] = []
        first, ink = 0, INK
        for at, own in enumerate(inks):
            if own is not ink and own != ink:
                if at > first:
                    parts.append(("".join(chars[first:at]), ink))
                first, ink = at, own
        if inks:
            parts.append(("".join(chars[first:]), ink))
        return parts

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
