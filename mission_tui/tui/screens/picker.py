"""Choosing one of many by typing a part of it, or by its key: the palette and the menu of actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.strip import Strip
from textual.widgets import Input

from mission_tui.tui.actions import Move, rows_by
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line, wrap
from mission_tui.tui.screens.sheet import Sheet
from mission_tui.tui.widgets.choices import Choice, Choices
from mission_tui.tui.widgets.lines import ScrollLines

_WHOLE_LINES = 2


class Picker(Sheet[str]):
    """With `typed`, letters filter (the palette); without, they are the choices' own keys (the menu)."""

    CHROME: ClassVar[int] = 8 + _WHOLE_LINES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", "up", priority=True),
        Binding("down", "step(1)", "down", priority=True),
        Binding("enter", "take", "take"),
        Binding("escape", "turn_away", "back", priority=True),
    ]

    def __init__(self, title: str, choices: Sequence[Choice], *, typed: bool) -> None:
        super().__init__(title, "Enter takes it   ↑ ↓ move   Esc back" + ("" if typed else "   or press its key"))
        self._choices = list(choices)
        self._typed = typed
        self._subject = self._title

    def _show_chosen(self) -> None:
        """Where the cursor is, with all of its detail; of how many, where the list is longer than its window."""
        choices = self.query_one(Choices)
        many = len(choices.choices)
        hidden = many > max(1, self.size.height - self.CHROME)
        self._title = f"{self._subject}   {choices.at + 1}/{many}" if hidden else self._subject
        for widget in self.query(ScrollLines):
            widget.redraw()

    def on_resize(self) -> None:
        """Another size holds more choices, or fewer."""
        super().on_resize()
        self._show_chosen()

    def content(self) -> ComposeResult:
        """The line to type into, if there is one, above the list."""
        if self._typed:
            yield Input(placeholder="type a part of it", compact=True)
        yield Choices(self._choices)
        yield ScrollLines(self._whole, id="sheet-whole")

    def _whole(self, width: int) -> list[Strip]:
        """The detail under the cursor in whole words; no lines where the list has room for every one."""
        choices = self.query_one(Choices)
        if not any(choices.cut(choice, width) for choice in self._choices):
            return []
        current = choices.current
        told = wrap(current.detail, width) if current is not None and choices.cut(current, width) else []
        return [line([(text, colours.INK)], width) for text in [*told, *[""] * _WHOLE_LINES][:_WHOLE_LINES]]

    def on_mount(self) -> None:
        """Size the list and get ready for typing."""
        self.query_one(Choices).styles.height = max(1, len(self._choices))
        if self._typed:
            self.query_one(Input).focus()

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        words = event.value.lower().split()
        found = [one for one in self._choices if all(word in one.searched for word in words)]

        def place(one: Choice) -> tuple[bool, bool, bool]:
            """What begins so comes first, then what has just these words in its name, then what is called so."""
            label = one.label.lower()
            whole = label.split()
            return (
                not (words and label.startswith(words[0])),
                not all(word in whole for word in words),
                not all(word in label for word in words),
            )

        self.query_one(Choices).offer(sorted(found, key=place) if words else found)
        self._show_chosen()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        """Enter comes through the line, so that it takes what all that was typed before it leaves."""
        self.action_take()

    def on_key(self, event: events.Key) -> None:
        """A choice's own key takes it."""
        if not self._typed:
            for choice in self._choices:
                if choice.key and event.character == choice.key:
                    event.stop()
                    self.take(choice.value)
                    return

    def on_choices_taken(self, message: Choices.Taken) -> None:
        """A click took it."""
        self.take(message.value)

    def take(self, value: str) -> None:
        """A choice was taken."""
        self.dismiss(value)

    def on_choices_moved(self) -> None:
        """The wheel moved the cursor."""
        self._show_chosen()

    def action_step(self, by: int) -> None:
        """Move the cursor."""
        self.query_one(Choices).step(by)
        self._show_chosen()

    def action_scroll_to(self, how: Move) -> None:
        """The other keys that move, by a line, a page, or to an end."""
        self.action_step(rows_by(how, 10, len(self._choices)))

    def action_take(self) -> None:
        """Take what the cursor is on."""
        current = self.query_one(Choices).current
        if current is not None:
            self.take(current.value)
