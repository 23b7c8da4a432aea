"""Lines of which a window is shown: content is built for a width, and kept while scrolled."""

from __future__ import annotations

from collections.abc import Callable

from textual.geometry import Size
from textual.strip import Strip

from mission_tui.tui.cursor_moves import Move
from mission_tui.tui.widgets.lines import Lines

__all__ = ["Build", "ScrollLines"]

Build = Callable[[int], list[Strip]]
"""Makes the whole content for a width in cells."""


def _nothing(_width: int) -> list[Strip]:
    return []


class ScrollLines(Lines):
    """As high as its content if its style says `height: auto`, else a window into it."""

    def __init__(self, build: Build = _nothing, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(id=id)
        self._build = build
        self._top = 0
        self._total = 0

    def set(self, build: Build, *, keep_place: bool = True) -> None:
        """Show what `build` makes; from the top unless `keep_place`."""
        self._build = build
        if not keep_place:
            self._top = 0
        self.redraw()

    def redraw(self) -> None:
        """Build the content and show the window into it."""
        width, height = self.size
        if width <= 0:
            return
        strips = self._build(width)
        self._total = len(strips)
        self._top = max(0, min(self._top, self._total - height))
        self.show(strips[self._top : self._top + height])

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The content's own height, for `height: auto`."""
        return len(self._build(width))

    def text(self) -> list[str]:
        """The whole content as words, without what only fills lines."""
        return [strip.text.rstrip() for strip in self._build(max(1, self.size.width))]

    @property
    def place(self) -> str:
        """Which lines are shown of how many; empty when all are."""
        if self._total <= self.size.height:
            return ""
        return f"{self._top + 1}-{min(self._total, self._top + self.size.height)}/{self._total}"

    def move(self, how: Move) -> None:
        """Scroll as a key asks."""
        page = max(1, self.size.height - 1)
        steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "first": -self._total, "last": self._total}
        self._top += steps.get(how, 0)
        self.redraw()

    def reveal(self, at: int) -> None:
        """Scroll as little as brings line `at` into sight."""
        self._top = min(max(self._top, at - self.size.height + 1), at)
        self.redraw()

    def wheel(self, by: int) -> None:
        """The wheel scrolls."""
        self._top += 3 * by
        self.redraw()
