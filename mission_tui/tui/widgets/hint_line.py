"""The last line of a sheet: its keys, which can be clicked where they are named."""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.pressable import key_at
from mission_tui.tui.drawing.strips import line
from mission_tui.tui.widgets.scroll_lines import ScrollLines

__all__ = ["HintLine"]


class HintLine(ScrollLines):
    """`said` gives the words; hints in them are two blanks apart and begin with their key."""

    def __init__(self, said: Callable[[], str], *, id: str) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(lambda width: [line([(said(), colours.QUIET)], width)], id=id)
        self._said = said

    def on_click(self, event: events.Click) -> None:
        """A click presses the key."""
        if (key := key_at(self._said(), event.x)) is not None:
            self.app.simulate_key(key)
