"""A yes-or-no question before something that cannot be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.strip import Strip

from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line
from mission_tui.tui.drawing.wrapping import wrap
from mission_tui.tui.screens.sheet import Sheet

__all__ = ["ConfirmScreen"]


class ConfirmScreen(Sheet[bool]):
    """Only `y` says yes; Enter does not, because it is pressed in passing."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "accept", "yes"), Binding("n", "turn_away", "no")]

    def __init__(self, question: str, facts: Sequence[str], deed: str, remark: str = "") -> None:
        super().__init__(question, f"y {deed}   n or Esc leave it   {remark}")
        self._facts = facts

    def lines(self, width: int) -> list[Strip]:
        """One fact after the other, folded."""
        return [line([(text, colours.INK)], width) for fact in self._facts for text in wrap(fact, width)]

    def action_accept(self) -> None:
        """Yes."""
        self.dismiss(True)
