"""The last look at every line before it is written: nothing that is not text, nothing the terminal cannot show."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from mission_tui.tui.drawing.glyphs import to_ascii
from mission_tui.tui.drawing.literal import literal

__all__ = ["GlyphFilter"]


class GlyphFilter(LineFilter):
    """Makes text literal (a second time, for text that Textual's own widgets draw) and, if asked to, ASCII."""

    def __init__(self, *, ascii_only: bool) -> None:
        super().__init__()
        self._write = to_ascii if ascii_only else literal

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments with safe text."""
        write = self._write
        return [Segment(write(text), style, control) for text, style, control in segments]
