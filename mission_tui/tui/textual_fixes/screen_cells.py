"""What a screen shows now, cell by cell, with the screens that shine through it.

Textual (8.2.8) exports a screen only through Rich, as an SVG that loads its font from the net.
"""

from __future__ import annotations

from msgspec import Struct
from rich.color import Color
from rich.style import Style
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from textual._compositor import LayoutUpdate
from textual.app import App

_DIM = 0.6


class Cells(Struct, frozen=True):
    """`text` in cells of one look; colours as `#rrggbb`."""

    text: str
    ink: str
    ground: str
    bold: bool = False


def cells_of(app: App[int], ink: str, ground: str) -> list[list[Cells]]:
    """Rows of cells; what has no colour of its own is `ink` on `ground` (`#rrggbb`)."""
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    assert isinstance(update, LayoutUpdate)
    return [
        [_cells(segment.text, segment.style, ink, ground) for strip in row for segment in strip if not segment.control]
        for row in update.strips
    ]


def _cells(text: str, style: Style | None, ink: str, ground: str) -> Cells:
    if style is None:
        return Cells(text, ink, ground)
    front, back = _hex(style.color, ink), _hex(style.bgcolor, ground)
    if style.reverse:
        front, back = back, front
    return Cells(text, _mixed(front, back) if style.dim else front, back, bool(style.bold))


def _hex(colour: Color | None, default: str) -> str:
    return default if colour is None or colour.is_default else colour.get_truecolor(DEFAULT_TERMINAL_THEME).hex


def _mixed(front: str, back: str) -> str:
    parts = [tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5)) for colour in (front, back)]
    return "#" + "".join(f"{round(_DIM * one + (1 - _DIM) * other):02x}" for one, other in zip(*parts, strict=True))
