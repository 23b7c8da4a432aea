"""A list of choices with a cursor: what each is called, what it does, and the key that takes it at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.strip import Strip

from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import fit, line, literal
from mission_tui.tui.widgets.lines import Lines

_FEWEST_CELLS = 10
"""Less of a detail says nothing."""


@dataclass(frozen=True, slots=True)
class Choice:
    """`value` is what choosing it gives; `key` chooses it at once where nothing is typed. `also` is found by typing."""

    value: str
    label: str
    detail: str = ""
    key: str = ""
    also: str = ""

    @property
    def searched(self) -> str:
        """All that typing finds it by."""
        return f"{self.label} {self.detail} {self.also}".lower()


class Choices(Lines):
    """A list with a cursor that never leaves it."""

    @dataclass
    class Taken(Message):
        """The person took this value."""

        value: str

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
            self.show([])
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
