"""What a resume would change, field by field, with grade, reason and remedy; a refusal can only be read.

A finding's advice is a resume too, but one that is always asked about: a `Proposal` says what else it means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.strip import Strip

from mission_tui.fleet.verdict import Grade
from mission_tui.ipc.messages import VerdictReply
from mission_tui.tui import colours
from mission_tui.tui.screens.sheet import Sheet
from mission_tui.tui.strips import Part, line
from mission_tui.tui.wrapping import wrap

__all__ = ["Proposal", "VerdictScreen"]

_STYLES: dict[Grade, Style] = {
    "safe": colours.GOOD,
    "note": colours.QUIET,
    "warn": colours.WARN,
    "refuse": colours.ALARM,
}
_ORDER: tuple[Grade, ...] = ("refuse", "warn", "note", "safe")


@dataclass(frozen=True, slots=True)
class Proposal:
    """The question to ask, what comes of a yes beside the changes, and what `y` does in a few words."""

    question: str
    facts: tuple[str, ...]
    deed: str


class VerdictScreen(Sheet[bool]):
    """Dismissed with True when the person accepts the changes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "accept", "accept"), Binding("n", "turn_away", "no")]

    def __init__(self, name: str, reply: VerdictReply, proposal: Proposal | None = None) -> None:
        self._acceptable = reply.accept_needed or (proposal is not None and reply.verdict.grade != "refuse")
        self._facts = proposal.facts if proposal else ()
        if proposal is not None and self._acceptable:
            super().__init__(proposal.question, f"y {proposal.deed}   n or Esc leave it")
        elif self._acceptable:
            super().__init__(f"Resume {name} with these changes?", "y accept and resume   n or Esc leave it")
        else:
            super().__init__(f"{name} cannot be resumed like this", "Esc back   n starts a new run with these settings")
        self._reply = reply

    def lines(self, width: int) -> list[Strip]:
        """The worst changes first: what, from what to what, why it matters, what would help."""
        rows: list[list[Part]] = [[(text, colours.INK)] for fact in self._facts for text in wrap(fact, width)]
        rows += [[]] if rows else []
        for change in sorted(self._reply.verdict.changes, key=lambda change: _ORDER.index(change.grade)):
            head = f" {change.name}: {change.was} → {change.now}"
            rows.append([(f"{change.grade:<6}", _STYLES[change.grade]), (head, colours.BOLD)])
            rows += [[(" " * 7 + text, colours.INK)] for text in wrap(change.why, width - 7)]
            if change.remedy:
                rows += [[(" " * 7 + text, colours.GOOD)] for text in wrap(f"instead: {change.remedy}", width - 7)]
        return [line(parts, width) for parts in rows]

    def action_accept(self) -> None:
        """Yes, if there is something to accept."""
        if self._acceptable:
            self.dismiss(True)
