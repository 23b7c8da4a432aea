"""The line for a regular expression: it filters while it is typed, and an unfinished one filters nothing."""

from __future__ import annotations

import re

from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line
from mission_tui.tui.widgets.scroll_lines import ScrollLines

__all__ = ["FilterBar"]


class FilterBar(Horizontal):
    """Shown while a pattern is typed. Enter keeps the filter, Escape removes it."""

    class Changed(Message):
        """`FilterBar.pattern` is another one."""

    class Closed(Message):
        """The person has finished typing."""

    def __init__(self) -> None:
        super().__init__(id="filter")
        self.display = False
        self.pattern: re.Pattern[str] | None = None

    def compose(self) -> ComposeResult:
        """A slash, or an exclamation mark while the pattern is no regular expression yet, and a borderless input."""
        yield ScrollLines(id="filter-sign")
        yield Input(id="filter-input", compact=True, select_on_focus=False)

    def open(self) -> None:
        """Show the line and type into it."""
        self.display = True
        self._sign(" /", colours.KEY)
        # At once: `focus` would wait for a turn of the loop, and what is typed meanwhile would be taken for commands.
        self.screen.set_focus(self.query_one(Input))

    def close(self, *, clear: bool) -> None:
        """Hide the line; `clear` also removes the filter."""
        box = self.query_one(Input)
        if clear and box.value:
            box.value = ""
            self.pattern = None
        self.display = False
        self.screen.set_focus(None)
        self.post_message(self.Closed())

    def _sign(self, sign: str, style: Style) -> None:
        self.query_one(ScrollLines).set(lambda width: [line([(sign, style)], width)])

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        try:
            self.pattern = re.compile(event.value, re.IGNORECASE) if event.value else None
        except re.error:
            self._sign(" !", colours.ALARM)
            return
        self._sign(" /", colours.KEY)
        self.post_message(self.Changed())

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        self.close(clear=False)
