"""Lines of the screen as Textual strips: styled parts cut to a width, folded at words, and safe to show; and tables of
such lines, where one line declares a column with its words, its order and when it gives way.

Every fixed-width cell, toast and log line passes through `literal`: nothing in foreign text can move the cursor,
reorder a line or hide. Markup never comes into play, because nothing in this room parses it. Of a line that an
environment drew the SGR colours are taken, and no other sequence is obeyed. What of a table does not fit goes by rank,
whole columns at a time, so that no figure is ever cut; what is sorted by stays.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from typing import Any, Generic, Literal, TypeVar

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.color import Color
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.colours import INK, KEY, QUIET

Part = tuple[str, Style]

_MIDDLE_FROM = 8
_CONSOLE = Console(file=StringIO(), markup=False, emoji=False, highlight=False, legacy_windows=False, _environ={})
"""Renders tables to segments and never writes; without markup, so foreign text in a cell stays text."""
_CLAUSE_END = re.compile(r"[:;,] ")
_CLAUSE_LEAST = 0.4
"""Share of the width that whole clauses fill at least."""
_HIDDEN = "·"
_NAMED: Mapping[str, str] = {
    "Esc": "escape",
    "Enter": "enter",
    "Tab": "tab",
    "PgDn": "pagedown",
    "F5": "f5",
    "?": "question_mark",
}
_HINT = re.compile(r"\S+(?: \S+)*")


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


def fit_name(text: str, width: int) -> str:
    """A run's name: what does not fit is left out before its last part, which tells seeds of one launch apart:
    `standard-lr3e…-s2`. Of several runs that is a word and their number: `heavy-3f…-control x3`.
    """
    text = literal(text)
    if cell_len(text) <= width or width < _MIDDLE_FROM:
        return fit_middle(text, width)
    # Groups of a trial differ in that word alone, so more may go of what stands before it.
    lasts = ((r"[-_ ][A-Za-z]{3,} x\d+$", 2 * width // 3), (r"[-_ ][^-_ ]*$", width // 2))
    ends = ((last.group(), most) for pattern, most in lasts if (last := re.search(pattern, text)) is not None)
    end = next((end for end, most in ends if 1 < cell_len(end) <= most), "")
    return set_cell_size(text, width - 1 - cell_len(end)) + "…" + end if end else fit_middle(text, width)


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


def part_cells(parts: Iterable[Part]) -> int:
    """Cells that `parts` take in a line."""
    return sum(cell_len(literal(text)) for text, _ in parts)


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


def wrap(text: str, width: int, most: int | None = None) -> list[str]:
    """`text` made literal and folded at spaces, in at most so many lines: an ellipsis says that there is more."""
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
    if current:
        lines.append(current)
    if most is None or len(lines) <= most:
        return lines
    return [*lines[: most - 1], fit(f"{lines[most - 1]} …", width).rstrip()]


def clause(text: str, width: int) -> str:
    """`text` made literal, or as many of its first clauses as fit; cut with an ellipsis where those say next to
    nothing, as `update 61` of a story would.
    """
    text = literal(text)
    if cell_len(text) <= width:
        return text
    ends = [found.start() for found in _CLAUSE_END.finditer(text)]
    whole = [text[:end] for end in ends if width * _CLAUSE_LEAST <= cell_len(text[:end]) <= width]
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


def literal(text: str) -> str:
    """`text` with control characters as their Unicode pictures, invisible ones as a middle dot, tabs as spaces."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _picture(char) for char in text)


def _picture(char: str) -> str:
    code = ord(char)
    if char == "\t":
        return " "
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return " " if unicodedata.category(char) == "Zs" else _HIDDEN


def key_at(hints: str, place: int) -> str | None:
    """The key, by Textual's name, with which the hint at `place` (cells from its left end) begins; None for no key."""
    for hint in _HINT.finditer(hints):
        if hint.start() <= place < hint.end():
            return _key(hint.group().partition(" ")[0])
    return None


def whole_hints(hints: str, width: int) -> str:
    """As many hints as fit, none of them cut: those before the last one give way, which is how one gets away."""
    words = re.split(r" {2,}", hints.strip())
    lead = hints[: len(hints) - len(hints.lstrip())]
    while len(words) > 1 and cell_len(lead + "  ".join(words)) > width:
        del words[-2]
    return lead + "  ".join(words) if cell_len(hints) > width else hints


def _key(word: str) -> str | None:
    if word.startswith("Ctrl-"):
        return f"ctrl+{word.removeprefix('Ctrl-').lower()}"
    return word if len(word) == 1 and word.isascii() and word.isalnum() else _NAMED.get(word)


def home_relative(root: str, home: str) -> str:
    """A path as people write it: their home is `~`."""
    if home and (root == home or root.startswith(home + "/")):
        root = "~" + root.removeprefix(home)
    return literal(root)


Row = TypeVar("Row")
Value = float | str | None

_GAP = 2
_MOST_WORDS = 34


def _ink(_row: object) -> Style:
    return INK


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """At least `width` cells; `value` is what it sorts by, `rank` the higher the sooner it gives way."""

    title: str
    width: int
    text: Callable[[Row], str]
    value: Callable[[Row], Value] | None = None
    left: bool = False
    rank: int = 0
    style: Callable[[Row], Style] = _ink


def ordered(columns: Sequence[Column[Row]], rows: Sequence[Row], title: str) -> list[Row]:
    """The rows by the column of that title: names rise, numbers fall, unknown comes last; any other keeps the order."""
    value = next((column.value for column in columns if column.title == title), None)
    if value is None:
        return list(rows)

    def key(row: Row) -> tuple[bool, Any]:
        found = value(row)
        return found is None, found if isinstance(found, str) else -(found or 0.0)

    return sorted(rows, key=key)


def table(
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    width: int,
    *,
    sort: str = "",
    lead: Callable[[Row], list[Part]] | None = None,
    ground: Callable[[Row], Style | None] = lambda _row: None,
) -> list[Strip]:
    """Titles and rows; `lead` are the two cells before each, `ground` what lies under it. A click on a title sorts.

    Columns give way from the right, the highest ranks first; before one of rank 0 does, the longest words are cut.
    """
    words = {id(column): [literal(column.text(row)) for row in rows] for column in columns}
    shown = [(column, _width(column, words[id(column)])) for column in columns]
    while len(shown) > 1 and (over := 2 + sum(cells + _GAP for _, cells in shown) - _GAP - width) > 0:
        goes = max(reversed(shown), key=lambda pair: -1 if pair[0].title == sort else pair[0].rank)
        column, cells = max(shown, key=lambda pair: pair[1] - _width(pair[0], ()))
        spare = cells - _width(column, ())
        if goes[0].rank == 0 and spare:
            shown[shown.index((column, cells))] = column, cells - min(over, spare)
        else:
            shown.remove(goes)
    titles: list[Part] = [("  ", QUIET)]
    for column, cells in shown:
        mark = "▾" if column.title == sort else ""
        style = KEY if mark else QUIET
        if column.value is not None:
            style += Style(meta={"@click": f"screen.sort({column.title!r})"})
        titles += [(_cell(column.title + mark, cells, column), style), (" " * _GAP, QUIET)]
    strips = [line(titles, width)]
    for at, row in enumerate(rows):
        parts = list(lead(row)) if lead is not None else [("  ", INK)]
        for column, cells in shown:
            parts += [(_cell(words[id(column)][at], cells, column), column.style(row)), (" " * _GAP, INK)]
        strips.append(line(parts, width, ground(row)))
    return strips


def _width(column: Column[Any], words: Sequence[str]) -> int:
    """Room for the mark of the order too, so that sorting moves nothing."""
    title = len(column.title) + (1 if column.value is not None else 0)
    return max(column.width, title, min(_MOST_WORDS, max((cell_len(word) for word in words), default=0)))


def _cell(text: str, cells: int, column: Column[Any]) -> str:
    return fit(text, cells, "left" if column.left else "right")


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
