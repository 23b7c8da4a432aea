"""One line to type into: settings whose effect is judged before anything is done, a name, a note, labels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.strip import Strip
from textual.widgets import Input

from mission_tui.errors import MissionError
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line, wrap
from mission_tui.tui.screens.sheet import Sheet
from mission_tui.tui.state.app_context import AppContext

__all__ = ["LineInputScreen", "settings_in", "typed"]


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


async def typed(
    app_context: AppContext,
    make: Callable[[str, str], LineInputScreen],
    attempt: Callable[[str], Awaitable[None]],
    text: str = "",
    *,
    empty: bool = False,
) -> None:
    """Ask for a line, begun as `text`, and `attempt` it; what is refused is asked again with the reason beside it.

    `make` takes the text and the reason. An empty line is attempted only if `empty` is something to say.
    """
    trouble = ""
    while True:
        said = await app_context.ask_user(make(text, trouble))
        if said is None or not (said or empty):
            return
        try:
            await attempt(said)
        except MissionError as error:
            text, trouble = said, str(error)
        else:
            return
