"""Yes-or-no questions before something that cannot be taken back; one lists what dead runs left behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import ClassVar

from rich.table import Table
from textual.binding import Binding, BindingType
from textual.strip import Strip

from mission_tui.ipc.replies import LeftoverRow
from mission_tui.process_name import short_name
from mission_tui.tui.drawing import colours, numbers
from mission_tui.tui.drawing.strips import line, rendered, words, wrap
from mission_tui.tui.screens.sheet import Sheet

__all__ = ["ConfirmScreen", "LeftoversScreen"]

_MOST = 16


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


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"


def _sizes(found: LeftoverRow) -> str:
    vram = f" + {numbers.size(found.vram_bytes)} VRAM" if found.vram_bytes else ""
    return f"{numbers.size(found.memory_bytes)}{vram}"


class LeftoversScreen(Sheet[bool]):
    """Dismissed with True when those that are ours shall be removed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "accept", "remove"), Binding("n", "turn_away", "no")]

    def __init__(self, stale: tuple[LeftoverRow, ...]) -> None:
        self._ours = sum(found.verdict == "ours" for found in stale)
        hint = f"y remove the {self._ours} that are ours   n or Esc leave them" if self._ours else "Esc back"
        super().__init__(f"{len(stale)} left behind by dead runs", hint)
        self._stale = stale

    def lines(self, width: int) -> list[Strip]:
        """A table, and a sentence about what is never touched."""
        table = Table.grid(padding=(0, 2, 0, 0), expand=True)
        for _ in range(5):
            table.add_column(no_wrap=True)
        # The words of a process give way first: who it belongs to and what it holds decide.
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for found in self._stale:
            ours = found.verdict == "ours"
            what = f"pid {found.pid}" if found.pid is not None else PurePath(found.name or "").name
            table.add_row(
                words(("ours", colours.GOOD) if ours else ("unsure", colours.WARN)),
                words((found.kind, colours.INK)),
                words((_cut(what), colours.INK)),
                words((_cut(short_name(found.run) if found.run else "no run"), colours.QUIET)),
                words((f"{numbers.duration(found.age_s)} {_sizes(found)}", colours.QUIET)),
                words((found.command, colours.QUIET)),
            )
        strips = rendered(table, width)
        if self._ours < len(self._stale):
            strips.append(line([("what is unsure is shown and never touched", colours.QUIET)], width))
        return strips

    def action_accept(self) -> None:
        """Yes, if there is something to remove."""
        if self._ours:
            self.dismiss(True)
