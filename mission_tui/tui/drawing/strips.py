"""Lines of the screen as Textual strips: styled parts cut to a width, and Rich renderables rendered once and kept."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import Literal

from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from mission_tui.tui.drawing.colours import INK
from mission_tui.tui.drawing.literal import literal

__all__ = ["Part", "fit", "fit_middle", "join", "line", "rendered", "words"]

Part = tuple[str, Style]

_MIDDLE_FROM = 8
_CONSOLE = Console(file=StringIO(), markup=False, emoji=False, highlight=False, legacy_windows=False, _environ={})
"""Renders tables to segments and never writes; without markup, so foreign text in a cell stays text."""


def fit(text: str, width: int, align: Literal["left", "right"] = "left") -> str:
    """Foreign `text` made literal and exactly `width` cells wide; what does not fit ends in an ellipsis."""
    if width <= 0:
        return ""
    text = literal(text)
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    padding = " " * (width - length)
    return padding + text if align == "right" else text + padding


def fit_middle(text: str, width: int) -> str:
    """As `fit`, but what does not fit is left out of the middle: names of one kind often differ at their ends alone."""
    text = literal(text)
    if cell_len(text) <= width or width < _MIDDLE_FROM:
        return fit(text, width)
    end = set_cell_size(text[::-1], width // 2)[::-1]
    return set_cell_size(text, width - 1 - width // 2) + "…" + end


def line(parts: Iterable[Part], width: int, ground: Style | None = None) -> Strip:
    """A strip of exactly `width` cells; `ground` lies under all parts."""
    segments: list[Segment] = []
    cells = 0
    for text, own in parts:
        cells += _append(segments, literal(text), ground + own if ground else own)
    if cells > width:
        return Strip(segments, cells).adjust_cell_length(width)
    _append(segments, " " * (width - cells), ground or INK)
    # One strip and not three: each brings seven caches of Textual's, which cost more than the words in it.
    return Strip(segments, width)


def _append(segments: list[Segment], text: str, style: Style) -> int:
    """Put `text` after what is there, to its last segment if that has the same style; returns the cells it takes."""
    if not text:
        return 0
    if segments and (segments[-1].style is style or segments[-1].style == style):
        segments[-1] = Segment(segments[-1].text + text, style)
    else:
        segments.append(Segment(text, style))
    return cell_len(text)


def words(*parts: Part) -> Text:
    """Foreign text as what stands in a cell of a Rich table: literal before it is measured, and never markup."""
    return Text.assemble(*((literal(text), style) for text, style in parts))


def join(strips: Iterable[Strip]) -> Strip:
    """Strips side by side."""
    return Strip.join(list(strips))


def rendered(renderable: RenderableType, width: int) -> list[Strip]:
    """A Rich renderable as strips of `width` cells."""
    options = _CONSOLE.options.update(width=width, height=None, highlight=False)
    return [
        Strip(segments).adjust_cell_length(width).simplify()
        for segments in _CONSOLE.render_lines(renderable, options, pad=True, new_lines=False)
    ]
