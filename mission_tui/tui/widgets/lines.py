"""The base of every drawn widget: a list of ready strips of which only the changed ones are painted again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

__all__ = ["Lines", "difference"]


class Lines(Widget):
    """Draws strips by the line API. Subclasses compute them in `redraw`, which also runs after each change of size."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(id=id)
        self._strips: list[Strip] = []

    def show(self, strips: Sequence[Strip]) -> None:
        """Draw `strips` from the top; only the part of each line that differs from what is drawn is repainted."""
        before, self._strips = self._strips, list(strips)
        changed: list[Region] = []
        for y in range(max(len(before), len(self._strips))):
            known = y < len(before) and y < len(self._strips)
            start, end = difference(before[y], self._strips[y]) if known else (0, self.size.width)
            if start < end:
                changed.append(Region(start, y, end - start, 1))
        if changed and self.is_mounted:
            self.refresh(*changed)

    def redraw(self) -> None:
        """Compute the strips for the present size and show them."""

    def render_line(self, y: int) -> Strip:
        """Line `y` of the widget."""
        if y < len(self._strips):
            return self._strips[y].apply_style(self.rich_style)
        return Strip.blank(self.size.width, self.rich_style)

    def on_resize(self, _event: events.Resize) -> None:
        """Another size is another picture."""
        self._strips = []
        self.redraw()
        self.refresh()


def difference(before: Strip, after: Strip) -> tuple[int, int]:
    """The cells from which and up to which two strips of one width differ; equal strips differ nowhere.

    One span a line: Textual (8.2.8) writes a line from its widget's left edge once for every span.
    """
    if before == after:
        return 0, 0
    start = _common(before, after)
    return start, max(start + 1, after.cell_length - _common(reversed(list(before)), reversed(list(after))))


def _common(one: Iterable[Segment], other: Iterable[Segment]) -> int:
    """The cells of those segments with which both begin."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(segment.cell_length for segment, _ in alike)
