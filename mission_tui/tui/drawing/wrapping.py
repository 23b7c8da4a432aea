"""Long text folded at words into lines of a width in cells; a word that is too long is cut, never dropped."""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells

from mission_tui.tui.drawing.literal import literal

__all__ = ["clause", "fold", "wrap"]


_CLAUSE_END = re.compile(r"[:;,] ")


def wrap(text: str, width: int) -> list[str]:
    """`text` made literal and folded at spaces."""
    if not text:
        return []
    lines: list[str] = []
    current = ""
    for word in literal(text).split(" "):
        grown = f"{current} {word}" if current else word
        if cell_len(grown) <= width:
            current = grown
            continue
        if current:
            lines.append(current)
        # Of several spaces in a row, those that would begin a line are dropped with it: the word between them is empty.
        *full, current = (chop_cells(word, width) if width > 1 else [word]) or [""]
        lines.extend(full)
    return [*lines, current] if current else lines


def clause(text: str, width: int) -> str:
    """`text` made literal, or as many of its first clauses as fit; where not even one does, cut with an ellipsis."""
    text = literal(text)
    if cell_len(text) <= width:
        return text
    ends = [found.start() for found in _CLAUSE_END.finditer(text)]
    whole = [text[:end] for end in ends if cell_len(text[:end]) <= width]
    return whole[-1] if whole else chop_cells(text, max(2, width) - 1)[0] + "…"


def fold(text: str, width: int, most: int) -> list[str]:
    """`text` made literal and cut every `width` cells into at most `most` lines, as a terminal would show it."""
    text = literal(text[: width * most + 1] if width > 0 else "")
    if cell_len(text) <= width:
        return [text]
    folded = chop_cells(text, max(2, width))[:most]
    if len(text) <= width * most:
        return folded
    # By cells and not by characters: the last character may be a mark without a width of its own.
    return [*folded[:-1], chop_cells(folded[-1], max(2, width) - 1)[0] + "…"]
