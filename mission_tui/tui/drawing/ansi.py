"""A line in the colours of its SGR sequences, as environments draw themselves; no other sequence of it is obeyed."""

from __future__ import annotations

import re
from functools import lru_cache

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line, literal

_COLOUR = re.compile(r"\x1b\[([0-9;:]*)m")
_BASIC = 30


def coloured_cells(text: str) -> int:
    """Cells that `coloured` takes for it."""
    return cell_len(_COLOUR.sub("", text))


def coloured(text: str, columns: int, indent: int) -> Strip:
    """`text` in its colours, `columns` wide, after `indent` blanks; every other control is shown as what it is."""
    if "\x1b" not in text:
        return line([(" " * indent + text, colours.INK)], columns)
    pieces = _COLOUR.split(text)
    segments = [Segment(" " * indent, colours.INK)]
    style = colours.INK
    for at, piece in enumerate(pieces):
        if at % 2:
            style = _style(style, piece)
        elif piece:
            segments.append(Segment(literal(piece), style))
    return Strip(segments).adjust_cell_length(columns, colours.INK)


@lru_cache(maxsize=4096)
def _style(before: Style, codes: str) -> Style:
    """`before`, changed by the codes of one SGR sequence: 38 and 48 with 5 or 2, the basic colours, and 0."""
    numbers_ = [int(code) if code.isdigit() else 0 for code in re.split("[;:]", codes or "0")]
    style, at = before, 0
    while at < len(numbers_):
        code = numbers_[at]
        if code in (38, 48) and at + 2 < len(numbers_) and numbers_[at + 1] == 5:
            style, at = style + _in(code, Color.from_ansi(numbers_[at + 2] % 256)), at + 3
        elif code in (38, 48) and at + 4 < len(numbers_) and numbers_[at + 1] == 2:
            red, green, blue = (part % 256 for part in numbers_[at + 2 : at + 5])
            style, at = style + _in(code, Color.from_rgb(red, green, blue)), at + 5
        else:
            if code == 0:
                style = colours.INK
            elif _BASIC <= code < _BASIC + 8:
                style += _in(38, Color.from_ansi(code - _BASIC))
            elif _BASIC + 10 <= code < _BASIC + 18:
                style += _in(48, Color.from_ansi(code - _BASIC - 10))
            at += 1
    return style


def _in(code: int, colour: Color) -> Style:
    return Style.from_color(color=colour) if code == 38 else Style.from_color(bgcolor=colour)
