"""The cells of a screen as a picture: text as text, each piece held in its cells; braille and blocks as boxes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len

from mission_tui.tui.drawing.picture_file import Box, Surface
from mission_tui.tui.textual_fixes.screen_cells import Cells

CELL_WIDTH, CELL_HEIGHT = 8.0, 16.0
_SIZE, _BASE = 13.28, 12.5
"""Of DejaVu Sans Mono, whose letters are 0.602 of its size wide."""

_BRAILLE = range(0x2800, 0x2900)
_DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of each bit of a braille character."""

_DOT = 2.6
_EIGHTHS_UP = "▁▂▃▄▅▆▇█"
_EIGHTHS_ACROSS = "▏▎▍▌▋▊▉"


def draw_screen(surface: Surface, rows: Sequence[Sequence[Cells]], ground: str) -> None:
    """Draw all `rows` on a surface whose own colour is `ground`."""
    for row, line in enumerate(rows):
        column = 0
        for it in line:
            width = cell_len(it.text)
            left, top = column * CELL_WIDTH, row * CELL_HEIGHT
            if it.ground != ground:
                surface.boxes([(left, top, width * CELL_WIDTH, CELL_HEIGHT)], it.ground)
            _draw(surface, it, left, top)
            column += width


def _draw(surface: Surface, it: Cells, left: float, top: float) -> None:
    boxes: list[Box] = []
    for column, text in _pieces(it.text):
        x = left + column * CELL_WIDTH
        drawn = list(_shape(text, x, top)) if len(text) == 1 else []
        if drawn:
            boxes += drawn
        elif text.strip():
            width = cell_len(text) * CELL_WIDTH
            surface.text((x, top + _BASE), text, it.ink, _SIZE, bold=it.bold, cells=0 if text.isascii() else width)
    if boxes:
        surface.boxes(boxes, it.ink)


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Shapes alone, and words between them; what lies two blanks apart is two pieces, so that none drifts."""
    column, begin, held = 0, 0, ""
    for character in text:
        alone = bool(list(_shape(character, 0.0, 0.0)))
        if held and (alone or (held.endswith("  ") and character != " ")):
            yield begin, held.rstrip(" ")
            held = ""
        if alone:
            yield column, character
        elif held or character != " ":
            begin = column if not held else begin
            held += character
        column += cell_len(character)
    if held.strip():
        yield begin, held.rstrip(" ")


def _shape(character: str, x: float, y: float) -> Iterator[Box]:
    """The boxes that a character is made of; none of a letter."""
    if ord(character) in _BRAILLE:
        bits = ord(character) - _BRAILLE.start
        for bit, (column, row) in enumerate(_DOTS):
            if bits >> bit & 1:
                yield x + 0.7 + 4 * column, y + 0.7 + 4 * row, _DOT, _DOT
    elif character in _EIGHTHS_UP:
        height = CELL_HEIGHT * (1 + _EIGHTHS_UP.index(character)) / 8
        yield x, y + CELL_HEIGHT - height, CELL_WIDTH, height
    elif character in _EIGHTHS_ACROSS:
        yield x, y, CELL_WIDTH * (1 + _EIGHTHS_ACROSS.index(character)) / 8, CELL_HEIGHT
    elif character == "▀":
        yield x, y, CELL_WIDTH, CELL_HEIGHT / 2
    elif character == "▐":
        yield x + CELL_WIDTH / 2, y, CELL_WIDTH / 2, CELL_HEIGHT


def size_of(rows: Iterable[Sequence[Cells]]) -> tuple[float, float]:
    """Width and height of the picture of `rows`."""
    lengths = [sum(cell_len(it.text) for it in row) for row in rows]
    return max(lengths, default=1) * CELL_WIDTH, max(1, len(lengths)) * CELL_HEIGHT
