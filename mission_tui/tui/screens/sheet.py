"""The base of every question and answer over the screen: a frame with a title, lines that scroll, and a hint."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.strip import Strip

from mission_tui.tui.actions import IN_SHEETS, Action, Move
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import fit, key_at, line, literal, whole_hints, wrap
from mission_tui.tui.widgets.lines import ScrollLines

Answer = TypeVar("Answer")

SCROLLING: tuple[Binding, ...] = tuple(
    Binding(keys, f"scroll_to('{how}')", how)
    for keys, how in (
        ("up,k", "up"),
        ("down,j", "down"),
        ("pageup", "page_up"),
        ("pagedown", "page_down"),
        ("home", "first"),
        ("end", "last"),
    )
)
"""The keys that scroll long content, by `action_scroll_to`."""


def keys_of(actions: Iterable[Action]) -> list[Binding]:
    """The keys of `actions`, as the table has them."""
    return [Binding(key, action.call, action.label, show=False) for action in actions for key in action.keys]


class Sheet(ModalScreen[Answer], inherit_bindings=False):
    """Subclasses give `lines`; Escape turns away with None, and so does `q`, which never leaves from here."""

    CSS_PATH: ClassVar = ["sheet.tcss"]
    CHROME: ClassVar[int] = 6
    SCROLLS: ClassVar[str] = "↑ ↓ scroll"
    """What the hint says besides, where not all lines are in sight."""
    AUTO_FOCUS = ""
    surprises: ClassVar[bool] = False
    """Whether it comes where a line to type into comes as well: what was typed for that acts on nothing here."""
    drawn = False
    """Whether it has come to its place: painted before, it would be seen to jump."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "turn_away", "back"),
        *SCROLLING,
        *keys_of(IN_SHEETS),
    ]

    def __init__(self, title: str, hint: str) -> None:
        super().__init__()
        self._title = literal(title)
        self._hint = hint
        self._more = False

    def compose(self) -> ComposeResult:
        """The frame around lines and hint."""
        with Vertical(id="sheet"):
            yield ScrollLines(self._title_line, id="sheet-title")
            yield from self.content()
            yield HintLine(self._hints, id="sheet-hint")

    def _title_line(self, width: int) -> list[Strip]:
        return [line([(fit(self._title, width).rstrip(), colours.BOLD)], width)]

    def on_resize(self) -> None:
        """Long content scrolls within what the frame, the title and the hint leave of the screen."""
        for widget in self.query("#sheet-lines, #sheet-choices"):
            widget.styles.max_height = max(1, self.size.height - self.CHROME)
        if not self.drawn:
            self.call_after_refresh(self._come_up)
        self.call_after_refresh(self._look_for_more)

    def _look_for_more(self) -> None:
        """Say that lines scroll where not all are in sight: nobody may agree to what they did not know was there."""
        more = any(widget.place for widget in self.query("#sheet-lines").results(ScrollLines))
        if more != self._more:
            self._more = more
            self.hint(self._hint)

    def _hints(self) -> str:
        told = not self._more or not self.SCROLLS or "scroll" in self._hint
        return self._hint if told else f"{self._hint}   {self.SCROLLS}"

    def _come_up(self) -> None:
        self.drawn = True
        self.refresh(layout=True)

    def content(self) -> ComposeResult:
        """What lies between title and hint."""
        yield ScrollLines(self.lines, id="sheet-lines")

    def lines(self, width: int) -> list[Strip]:
        """The lines for `width` cells."""
        return []

    def hint(self, text: str) -> None:
        """Say something else at the bottom."""
        self._hint = text
        self.query_one("#sheet-hint", ScrollLines).redraw()

    def refill(self) -> None:
        """Draw the lines anew; there may be more or fewer of them."""
        lines = self.query_one("#sheet-lines", ScrollLines)
        lines.redraw()
        lines.refresh(layout=True)

    def action_scroll_to(self, how: Move) -> None:
        """Scroll long content."""
        self.query_one("#sheet-lines", ScrollLines).move(how)

    def action_turn_away(self) -> None:
        """Back one layer, without an answer."""
        self.dismiss(None)


class HintLine(ScrollLines):
    """`said` gives the words; hints in them are two blanks apart and begin with their key."""

    def __init__(self, said: Callable[[], str], *, id: str) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(lambda width: [line([(whole_hints(said(), width), colours.QUIET)], width)], id=id)
        self._said = said

    def on_click(self, event: events.Click) -> None:
        """A click presses the key."""
        if (key := key_at(whole_hints(self._said(), self.size.width), event.x)) is not None:
            self.app.simulate_key(key)


def still_open(screen: Screen[Any]) -> bool:
    """False as soon as it was left: for a while it is attached without its widgets, and none of them can be drawn."""
    return screen.is_attached and screen in screen.app.screen_stack


class ErrorScreen(Sheet[None]):
    """Also written to Textual's log, for those who run with its console."""

    def __init__(self, error: Exception) -> None:
        super().__init__("Something went wrong in the screen; all runs go on", "Esc back")
        self._said = traceback.format_exception(error)

    def on_mount(self) -> None:
        """Leave a trace."""
        self.log.error("".join(self._said))

    def lines(self, width: int) -> list[Strip]:
        """The error, then where it came from, newest first."""
        said = [text for block in reversed(self._said) for raw in block.splitlines() for text in wrap(raw, width)]
        return [line([(text, colours.ALARM if at == 0 else colours.QUIET)], width) for at, text in enumerate(said)]
