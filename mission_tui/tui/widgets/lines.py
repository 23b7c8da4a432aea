"""The base of every drawn widget: a list of ready strips of which only the changed ones are painted again."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

__all__ = ["Lines", "differences"]

_CLOSE = 4
"""Cells between two changes that cost less than moving the cursor over them."""


class Lines(Widget):
    """Draws strips by the line API. Subclasses compute them in `redraw`, which also runs when a line is painted in
    another size than they were computed for, so that the first paint after a layout is the right one.
    """

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(id=id)
        self._strips: list[Strip] = []
        self._size_drawn: Size | None = None
        self._painting = False
        self._ground: Style | None = None

    def show(self, strips: Sequence[Strip]) -> None:
        """Draw `strips` from the top; only the cells that differ from what is drawn are repainted."""
        before = self._strips if self._size_drawn == self.size else []
        self._strips, self._size_drawn = list(strips), self.size
        changed: list[Region] = []
        for y in range(max(len(before), len(self._strips))):
            known = y < len(before) and y < len(self._strips)
            spans = differences(before[y], self._strips[y]) if known else [(0, self.size.width)]
            changed += [Region(start, y, end - start, 1) for start, end in spans]
        if changed and self.is_mounted and not self._painting:
            self.refresh(*changed)

    def redraw(self) -> None:
        """Compute the strips for the present size and show them."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of `crop`. Their ground is asked for once: for each line anew it was a fifth of a paint."""
        self._ground = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Line `y` of the widget."""
        # A new size is painted before its event arrives: without this, a frame of nothing, or of the former width.
        if self._size_drawn != self.size:
            self._painting = True
            try:
                self._draw_anew()
            finally:
                self._painting = False
        ground = self._ground or self.rich_style
        if y < len(self._strips):
            return self._strips[y].apply_style(ground)
        return Strip.blank(self.size.width, ground)

    def on_resize(self, _event: events.Resize) -> None:
        """Another size is another picture."""
        if self._size_drawn != self.size:
            self._draw_anew()
            self.refresh()

    def _draw_anew(self) -> None:
        self._size_drawn = self.size
        self._strips = []
        self.redraw()


def differences(before: Strip, after: Strip) -> list[tuple[int, int]]:
    """The cells from which and up to which two strips of one width differ; what lies close together is one span."""
    if before == after:
        return []
    one, other = _cells(before), _cells(after)
    if one is None or other is None or len(one) != len(other):
        return [(0, max(before.cell_length, after.cell_length))]
    spans: list[tuple[int, int]] = []
    for at in (at for at, cell in enumerate(other) if cell != one[at]):
        if spans and at - spans[-1][1] <= _CLOSE:
            spans[-1] = spans[-1][0], at + 1
        else:
            spans.append((at, at + 1))
    return spans


def _cells(strip: Strip) -> list[tuple[str, Style | None]] | None:
    """One cell a character; None where a character takes two cells, or none."""
    if strip.cell_length != len(strip.text):
        return None
    return [(char, style) for text, style, _ in strip for char in text]
