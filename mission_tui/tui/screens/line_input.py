"""One line to type into: settings whose effect is judged before anything is done, a name, a note, labels."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.strip import Strip
from textual.widgets import Input

from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line, wrap
from mission_tui.tui.screens.sheet import Sheet

__all__ = ["LineInputScreen", "settings_in"]


class LineInputScreen(Sheet[str]):
    """Dismissed with what was typed; `about` says what that may be, `deed` what Enter does with it.

    `trouble` is why `text`, which was typed before, was refused: it is then corrected, and not typed anew.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "turn_away", "back", priority=True)]

    def __init__(self, title: str, about: str, deed: str, placeholder: str, text: str = "", trouble: str = "") -> None:
        super().__init__(title, f"Enter {deed}   Esc back")
        self._about = about
        self._placeholder = placeholder
        self._text = text
        self._trouble = trouble

    def content(self) -> ComposeResult:
        """The line to type into, above what it is for."""
        # A whole text is typed over, a line that was only begun is gone on with.
        whole = not self._text.endswith(" ") and not self._trouble
        yield Input(self._text, placeholder=self._placeholder, compact=True, max_length=1000, select_on_focus=whole)
        yield from super().content()

    def lines(self, width: int) -> list[Strip]:
        """Why it was refused, and what to type."""
        said = ((self._trouble, colours.ALARM), (self._about, colours.QUIET))
        return [line([(text, style)], width) for words, style in said for text in wrap(words, width)]

    def on_mount(self) -> None:
        """Ready for typing."""
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())


def settings_in(text: str) -> tuple[str, ...]:
    """The ``KEY=VALUE`` words of a line, also where `--set` was typed before them."""
    return tuple(word.removeprefix("--set=") for word in text.split() if word != "--set")
