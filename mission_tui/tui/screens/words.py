"""One line to type `--set` words into, for a resume with other settings; what they do is judged before it is done."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.strip import Strip
from textual.widgets import Input

from mission_tui.tui import colours
from mission_tui.tui.screens.sheet import Sheet
from mission_tui.tui.strips import line
from mission_tui.tui.wrapping import wrap

__all__ = ["WordsScreen"]

_HELP = "KEY=VALUE, several with spaces between. Nothing starts yet: what each change does is shown first."


class WordsScreen(Sheet[tuple[str, ...]]):
    """Dismissed with the words, as they were typed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "turn_away", "back", priority=True)]

    def __init__(self, name: str) -> None:
        super().__init__(f"Resume {name} with other settings", "Enter shows what they do   Esc back")

    def content(self) -> ComposeResult:
        """The line to type into, above what it is for."""
        yield Input(placeholder="env.n_envs=64 ppo.batch_size=64", compact=True, max_length=1000)
        yield from super().content()

    def lines(self, width: int) -> list[Strip]:
        """What to type."""
        return [line([(text, colours.QUIET)], width) for text in wrap(_HELP, width)]

    def on_mount(self) -> None:
        """Ready for typing."""
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        self.dismiss(tuple(word.removeprefix("--set=") for word in event.value.split() if word != "--set"))
