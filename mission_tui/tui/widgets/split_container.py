"""Two parts of a screen with a border between them, which keys and the mouse move."""

from __future__ import annotations

from textual import events
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget

from mission_tui.tui.state.preferences import Shares, Split


class SplitContainer(Container):
    """Says in `split` what its border lies between now, and lays its parts out by `shares` whenever it is drawn."""

    class Moved(Message):
        """The border is wanted elsewhere."""

    def __init__(self, shares: Shares, *, id: str) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(id=id)
        self.shares = shares
        self._dragged = False

    def split(self) -> Split | None:
        """The two parts as they are; None where one of them is not shown."""
        return None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """The border is grabbed where nothing else can be clicked."""
        split = self.split()
        at_border = split is not None and split.grip.contains(event.screen_x, event.screen_y)
        self._dragged = at_border and "@click" not in event.style.meta

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """The border goes where the pointer goes."""
        self._dragged = self._dragged and bool(event.button)
        split = self.split() if self._dragged else None
        if split is not None and self.shares.give(split, split.reaching(event.screen_x, event.screen_y)):
            self.post_message(self.Moved())

    def on_mouse_up(self, _event: events.MouseUp) -> None:
        """The border stays where it was dragged to."""
        self._dragged = False


def give_columns(widget: Widget, columns: int | None) -> None:
    """Make a part exactly so many cells wide; None as its stylesheet has it."""
    width = widget.styles.inline.width
    if columns is None:
        if width is not None:
            widget.styles.width = widget.styles.min_width = widget.styles.max_width = None
    elif width is None or width.value != columns:
        widget.styles.width = widget.styles.min_width = widget.styles.max_width = columns
