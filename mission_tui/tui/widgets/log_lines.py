"""A run's output: follows its end until the person scrolls up, and shows only matching lines while a search is on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from mission_tui.tui import colours
from mission_tui.tui.moves import Move
from mission_tui.tui.strips import Part, line
from mission_tui.tui.widgets.lines import Lines
from mission_tui.tui.wrapping import fold

__all__ = ["LogLines"]

_MOST_FOLDS = 24
_FOUND = Style(color=colours.GROUND, bgcolor=colours.PALETTE.key, bold=True)


class LogLines(Lines):
    """Lines folded at the width. Foreign text throughout: nothing in it is interpreted."""

    class TopReached(Message):
        """The person scrolls up at the first known line: there may be more before it."""

    def __init__(self) -> None:
        super().__init__(id="log")
        self._lines: Sequence[str] = ()
        self._pattern: re.Pattern[str] | None = None
        self._folded: list[str] = []
        self._folded_for: tuple[int, int, str, object] | None = None
        self._top = 0
        self.following = True

    def update(self, lines: Sequence[str], pattern: re.Pattern[str] | None) -> None:
        """Show `lines`, or those in which `pattern` is found."""
        grown = len(lines) - len(self._lines) if lines and self._lines and lines[-1] == self._lines[-1] else 0
        if grown > 0 and not self.following:
            self._top += grown
        if pattern is not self._pattern:
            self.following = True
        self._lines, self._pattern = list(lines), pattern
        self.redraw()

    @property
    def place(self) -> str:
        """What the window shows, in words."""
        found = f"{len(self._folded)} lines found" if self._pattern else f"{len(self._lines)} lines"
        return f"{found}, following" if self.following else f"{found}, End follows"

    def redraw(self) -> None:
        """Fold anew if text, width or search changed; then show the window."""
        width, height = self.size
        if width <= 0:
            return
        newest = self._lines[-1] if self._lines else ""
        wanted = (width, len(self._lines), newest, self._pattern)
        if wanted != self._folded_for:
            self._folded_for = wanted
            shown = (text for text in self._lines if self._pattern is None or self._pattern.search(text))
            self._folded = [row for text in shown for row in fold(text, width - 1, _MOST_FOLDS)]
        last = max(0, len(self._folded) - height)
        self._top = last if self.following else max(0, min(self._top, last))
        self.show([self._row(text, width) for text in self._folded[self._top : self._top + height]])

    def _row(self, text: str, width: int) -> Strip:
        parts: list[Part] = [(" ", colours.INK)]
        at = 0
        for found in self._pattern.finditer(text) if self._pattern else ():
            if found.end() > found.start():
                parts += [(text[at : found.start()], colours.INK), (found.group(), _FOUND)]
                at = found.end()
        return line([*parts, (text[at:], colours.INK)], width)

    def move(self, how: Move) -> None:
        """Scroll as a key asks; reaching the end follows it again."""
        page = max(1, self.size.height - 1)
        whole = len(self._folded)
        steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "first": -whole, "last": whole}
        self._scroll(steps.get(how, 0))

    def _scroll(self, by: int) -> None:
        if by < 0 and self._top == 0:
            self.post_message(self.TopReached())
        self._top += by
        self.following = self._top >= len(self._folded) - self.size.height and by > 0
        self.redraw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel scrolls."""
        event.stop()
        self._scroll(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel scrolls."""
        event.stop()
        self._scroll(-3)
