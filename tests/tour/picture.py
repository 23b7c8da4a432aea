"""A terminal's cells as a small SVG: what a person saw, in its colours, cell by cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import pyte

__all__ = ["svg"]

CELL_W, CELL_H = 6, 12
GROUND, INK = "10151b", "d8dee6"
NAMED = {
    "black": "000000", "red": "cd3131", "green": "0dbc79", "brown": "e5e510", "blue": "2472c8", "magenta": "bc3fbc",
    "cyan": "11a8cd", "white": "e5e5e5", "brightblack": "666666", "brightred": "f14c4c", "brightgreen": "23d18b",
    "brightbrown": "f5f543", "brightblue": "3b8eea", "brightmagenta": "d670d6", "brightcyan": "29b8db",
    "brightwhite": "ffffff",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Look:
    ink: str
    ground: str
    bold: bool


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Cells of one look in one row."""

    column: int
    text: str
    cells: int
    look: _Look


def svg(screen: pyte.Screen) -> str:
    """The screen; what fonts draw in other widths is held in its cells."""
    rows = [list(_stretches(screen, y)) for y in range(screen.lines)]
    under = Counter[str]()
    for it in (it for row in rows for it in row):
        under[it.look.ground] += it.cells
    ground = under.most_common(1)[0][0]
    inks = sorted({(it.look.ink, it.look.bold) for row in rows for it in row if it.text.strip()})
    names = {ink: f"c{at}" for at, ink in enumerate(inks)}
    width, height = screen.columns * CELL_W, screen.lines * CELL_H
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        "<style>text{font:10px ui-monospace,Menlo,'DejaVu Sans Mono',monospace;white-space:pre}",
        "".join(f".{names[it]}{{fill:#{it[0]}{';font-weight:bold' if it[1] else ''}}}" for it in inks) + "</style>",
        f'<rect width="{width}" height="{height}" fill="#{ground}"/>',
    ]
    for y, row in enumerate(rows):
        for it in row:
            if it.look.ground != ground:
                place = f'x="{it.column * CELL_W}" y="{y * CELL_H}" width="{it.cells * CELL_W}" height="{CELL_H}"'
                out.append(f'<rect {place} fill="#{it.look.ground}"/>')
        spans = "".join(_span(it, names[it.look.ink, it.look.bold]) for it in row if it.text.strip())
        if spans:
            out.append(f'<text y="{y * CELL_H + 10}">{spans}</text>')
    return "\n".join([*out, "</svg>", ""])


def _span(it: _Stretch, name: str) -> str:
    text = it.text.rstrip()
    cells = it.cells - (len(it.text) - len(text))
    lead = len(text) - len(text.lstrip())
    text = text.lstrip()
    held = "" if text.isascii() else f' textLength="{(cells - lead) * CELL_W}" lengthAdjust="spacingAndGlyphs"'
    return f'<tspan class="{name}" x="{(it.column + lead) * CELL_W}"{held}>{escape(text, quote=False)}</tspan>'


def _stretches(screen: pyte.Screen, y: int) -> Iterator[_Stretch]:
    """The row in pieces of one look; what lies two blanks apart is two pieces, so that none drifts."""
    column, text, cells, look = 0, "", 0, None
    for x in range(screen.columns):
        char = screen.buffer[y][x]
        ink, ground = _colour(char.fg, INK), _colour(char.bg, GROUND)
        here = _Look(ground, ink, char.bold) if char.reverse else _Look(ink, ground, char.bold)
        if look is not None and (here != look or (text.endswith("  ") and char.data.strip())):
            yield _Stretch(column, text, cells, look)
            column, text, cells = x, "", 0
        look, text, cells = here, text + char.data, cells + 1
    if look is not None:
        yield _Stretch(column, text, cells, look)


def _colour(name: str, default: str) -> str:
    return default if name == "default" else NAMED.get(name, name)
