"""The line of the launch form that says what Tab would take, or what the field with the cursor is for."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from mission_tui.fleet.specs.completion import Completion
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, fit, line
from mission_tui.tui.widgets.lines import Lines

__all__ = ["OfferLine"]


class OfferLine(Lines):
    """One of the offers is marked: `chosen` is what Tab takes."""

    def __init__(self) -> None:
        super().__init__(id="form-offers")
        self._question: object = None
        self._offers: Sequence[Completion] = ()
        self._at = 0
        self._about = ""

    @property
    def chosen(self) -> Completion | None:
        """The marked offer; None where nothing is offered."""
        return self._offers[self._at] if self._offers else None

    def offer(self, question: object, offers: Sequence[Completion], about: str) -> None:
        """Show these, the first marked unless the `question` is as it was; `about` where there are none."""
        if (question, offers) != (self._question, self._offers):
            self._at = 0
        self._question, self._offers, self._about = question, offers, about
        self.redraw()

    def turn(self, by: int) -> bool:
        """Mark another one; false where there is none on that side."""
        there = 0 <= self._at + by < len(self._offers)
        if there:
            self._at += by
            self.redraw()
        return there

    def redraw(self) -> None:
        """The marked offer with what it is, then those after it."""
        width = self.size.width
        parts = self._parts(width) if self._offers else [(self._about, colours.QUIET)]
        self.show([line(parts, width)])

    def _parts(self, width: int) -> list[Part]:
        chosen = self._offers[self._at]
        detail = f" {chosen.detail}" if chosen.detail else ""
        parts: list[Part] = [("Tab ", colours.KEY), (chosen.text, colours.CHOSEN), (detail, colours.QUIET)]
        others = "  ".join(offer.text for offer in self._offers[self._at + 1 :])
        if others:
            used = sum(cell_len(text) for text, _ in parts)
            parts += [("   ↓ ", colours.KEY), (fit(others, max(0, width - used - 5)), colours.INK)]
        return parts
