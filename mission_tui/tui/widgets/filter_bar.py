"""The line for a regular expression: it filters while it is typed, and an unfinished one filters nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style
from textual.containers import Horizontal
from textual.message import Message

from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import fit, line
from mission_tui.tui.state.filter_pattern import FilterPattern, NoExpressionError
from mission_tui.tui.widgets.lines import ScrollLines

if TYPE_CHECKING:
    from textual.widgets import Input


class FilterBar(Horizontal):
    """Shown while a pattern is typed. Enter keeps the filter, Escape removes it."""

    class Changed(Message):
        """`FilterBar.pattern` is another one."""

    @dataclass
    class GivenUp(Message):
        """Searching for `words` took too long, and the line that would say so is closed."""

        words: str

    class Closed(Message):
        """The person has finished typing."""

    def __init__(self) -> None:
        super().__init__(id="filter")
        self.display = False
        self.pattern: FilterPattern | None = None
        self._box: Input | None = None

    def open(self) -> None:
        """Show the line and type into it."""
        if self._box is None:
            self._box = self._mounted()
        self.display = True
        self._sign(" /", colours.KEY)
        # At once: `focus` would wait for a turn of the loop, and what is typed meanwhile would be taken for commands.
        self.screen.set_focus(self._box)

    def _mounted(self) -> Input:
        """A slash and a borderless input; an exclamation mark while that is no regular expression yet, and why not."""
        from textual.widgets import Input  # not before somebody filters: the first picture comes sooner without

        box = Input(id="filter-input", compact=True, select_on_focus=False)
        self.mount(ScrollLines(id="filter-sign"), box, ScrollLines(id="filter-trouble"))
        return box

    def close(self, *, clear: bool) -> None:
        """Hide the line; `clear` also removes the filter."""
        if clear and self._box is not None and self._box.value:
            self._box.value = ""
            self.pattern = None
        self.display = False
        self.screen.set_focus(None)
        self.post_message(self.Closed())

    def _sign(self, sign: str, style: Style, trouble: str = "") -> None:
        self.query_one("#filter-sign", ScrollLines).set(lambda width: [line([(sign, style)], width)])
        told = self.query_one("#filter-trouble", ScrollLines)
        told.display = bool(trouble)
        told.styles.width = min(cell_len(trouble) + 2, self.screen.size.width // 2)
        told.set(lambda width: [line([(f" {fit(trouble, width - 1)}", colours.QUIET)], width)])

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter by what is typed."""
        event.stop()
        try:
            self.pattern = FilterPattern(event.value, self._too_slow) if event.value else None
        except NoExpressionError as error:
            self._sign(" !", colours.ALARM, f"not a regular expression yet: {error}")
            return
        self._sign(" /", colours.KEY)
        self.post_message(self.Changed())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter."""
        event.stop()
        self.close(clear=False)

    def _too_slow(self) -> None:
        words = self.pattern.words if self.pattern is not None else ""
        self.pattern = None
        self._sign(" !", colours.ALARM, "takes too long")
        if not self.display:
            self.post_message(self.GivenUp(words))
        self.post_message(self.Changed())
