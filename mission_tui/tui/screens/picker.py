"""Choosing one of many by typing a part of it, or by its key: the palette and the menu of actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input

from mission_tui.tui.actions import Move
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import fit, line, literal, wrap
from mission_tui.tui.screens.sheet import Sheet
from mission_tui.tui.widgets.lines import Lines, ScrollLines

__all__ = ["Choice", "Choices", "Picker"]

_FEWEST_CELLS = 10
"""Less of a detail says nothing."""
_WHOLE_LINES = 2


@dataclass(frozen=True, slots=True)
class Choice:
    """`value` is what choosing it gives; `key` chooses it at once where nothing is typed."""

    value: str
    label: str
    detail: str = ""
    key: str = ""


class Choices(Lines):
    """A list with a cursor that never leaves it."""

    class Taken(Message):
        """The person took this value."""

        def __init__(self, value: str) -> None:
            super().__init__()
            self.value = value

    class Moved(Message):
        """The cursor was moved by the mouse."""

    def __init__(self, choices: Sequence[Choice], *, id: str = "sheet-choices") -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.choices = list(choices)
        self.at = 0

    @property
    def is_highlighted(self) -> bool:
        """Whether the cursor's line is highlighted."""
        return True

    @property
    def current(self) -> Choice | None:
        """The choice under the cursor."""
        return self.choices[self.at] if self.choices else None

    def offer(self, choices: Sequence[Choice]) -> None:
        """List other choices; the cursor goes to the first."""
        self.choices, self.at = list(choices), 0
        self.redraw()

    def step(self, by: int) -> None:
        """Move the cursor."""
        self.at = max(0, min(self.at + by, len(self.choices) - 1))
        self.redraw()

    def redraw(self) -> None:
        """The window of choices around the cursor."""
        width, height = self.size
        if height <= 0:
            return
        if not self.choices:
            self.show([line([("  nothing has all of these words", colours.QUIET)], width)])
            return
        top = max(0, min(self.at - height // 2, len(self.choices) - height))
        shown = list(enumerate(self.choices))[top : top + height]
        self.show([self._row(choice, width, chosen=at == self.at) for at, choice in shown])

    def _row(self, choice: Choice, width: int, *, chosen: bool) -> Strip:
        label, room = self._room(width)
        parts = [
            (">" if chosen else " ", colours.KEY),
            (f"{choice.key:<7}" if any(other.key for other in self.choices) else "", colours.KEY),
            (fit(choice.label, label), colours.INK),
            (" ", colours.INK),
            (fit(choice.detail, room), colours.QUIET),
        ]
        return line(parts, width, colours.CHOSEN if chosen and self.is_highlighted else None)

    def _room(self, width: int) -> tuple[int, int]:
        """Cells for labels and for details."""
        label = min(30, max((len(other.label) for other in self.choices), default=0) + 1)
        room = width - label - 9
        return label, room if room >= _FEWEST_CELLS else 0

    def cut(self, choice: Choice, width: int) -> bool:
        """Whether the list has no room for all of the detail."""
        return cell_len(literal(choice.detail)) > self._room(width)[1]

    def on_click(self, event: events.Click) -> None:
        """A click takes a choice."""
        top = max(0, min(self.at - self.size.height // 2, len(self.choices) - self.size.height))
        if top + event.y < len(self.choices):
            self.post_message(self.Taken(self.choices[top + event.y].value))

    def wheel(self, by: int) -> None:
        """The wheel moves the cursor."""
        self.step(by)
        self.post_message(self.Moved())


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

    def _told(self) -> None:
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
        self._told()

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
        found = [one for one in self._choices if all(word in f"{one.label} {one.detail}".lower() for word in words)]
        first = [one for one in found if words and one.label.lower().startswith(words[0])]
        self.query_one(Choices).offer(first + [one for one in found if one not in first])
        self._told()

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
                    self.dismiss(choice.value)

    def on_choices_taken(self, message: Choices.Taken) -> None:
        """A click took it."""
        self.dismiss(message.value)

    def on_choices_moved(self) -> None:
        """The wheel moved the cursor."""
        self._told()

    def action_step(self, by: int) -> None:
        """Move the cursor."""
        self.query_one(Choices).step(by)
        self._told()

    def action_scroll_to(self, how: Move) -> None:
        """The other keys that move, by a line, a page, or to an end."""
        many = len(self._choices)
        steps = {"up": -1, "down": 1, "page_up": -10, "page_down": 10, "first": -many, "last": many}
        self.action_step(steps[how])

    def action_take(self) -> None:
        """Take what the cursor is on."""
        current = self.query_one(Choices).current
        if current is not None:
            self.dismiss(current.value)
