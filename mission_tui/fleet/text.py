"""Foreign text made harmless once, at the door: what env output, exceptions, names and drivers say.

What comes out is printable characters: no control or escape sequence, no bidirectional override, nothing of zero width
except a few combining marks in a row, and one line of them, except from `clean_lines`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

ESCAPES = re.compile(
    r"(?:\x1b[P\]X^_]|[\x90\x9d\x98\x9e\x9f]).*?(?:\x07|\x1b\\|\x9c|\Z)"  # strings to the terminal, up to their end
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # control sequences
    r"|\x1b[ -/]*[0-~]?",  # two-character escapes
    re.DOTALL,
)
BLANKS = frozenset("\t\n\v\f\r\x85\u2028\u2029")
MARKS_IN_A_ROW = 3
_MARKS = ("Mn", "Me")
_INVISIBLE = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x3164, 0xFFA0, 0x1D159),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)
"""Fillers, joiners and selectors, which Unicode counts among letters and marks, and nobody sees."""
_UNDECODED = re.compile("[\ud800-\udfff]")
_TAB_COLUMNS = 8


def clean(text: str, limit: int = 200) -> str:
    """`text` as one printable line of at most `limit` characters; what was cut off is shown as an ellipsis.

    Line breaks, tabs and runs of blanks become one blank. Printable Unicode stays. Only the first part of a huge
    text is ever looked at, so the cost is bounded by `limit`.
    """
    if len(text) <= limit and text.isascii() and text.isprintable():
        return " ".join(text.split())  # nearly all there is, and said again with every snapshot
    window = 16 * limit + 4096
    line = " ".join(_printable(ESCAPES.sub("", text[:window])).split())
    if len(line) > limit or len(text) > window:
        return line[: limit - 1].rstrip() + "…"
    return line


def clean_line(text: str, limit: int | None = None) -> str:
    """The same, but every blank stays where it is, so that columns stay columns; tabs reach to the next eighth column.

    Without a `limit` the whole text is looked at. Bytes of a file name that are no UTF-8 leave a mark each.
    """
    if (limit is None or len(text) <= limit) and text.isascii() and text.isprintable():
        return text
    window = len(text) if limit is None else 16 * limit + 4096
    line = _printable(_UNDECODED.sub("\ufffd", ESCAPES.sub("", text[:window])).expandtabs(_TAB_COLUMNS))
    if limit is not None and (len(line) > limit or len(text) > window):
        return line[: limit - 1].rstrip() + "…"
    return line


def as_left(line: str) -> str:
    """What is left of a line that was overwritten by carriage returns, as progress bars do."""
    return line.rstrip("\r").rsplit("\r", 1)[-1]


def clean_lines(text: str) -> str:
    """`text` of several lines, each as `clean_line` has it."""
    return "\n".join(map(clean_line, text.split("\n")))


def spelled_out(text: str) -> str:
    """`text` as one line of which nothing is left out: what cannot be printed stands there as its escape, `\\x1b`.

    For what a person agrees to: where something is taken out, a command could hide in it.
    """
    if text.isprintable() and _INVISIBLE.isdisjoint(text):
        return text
    return "".join(
        it if it.isprintable() and it not in _INVISIBLE else it.encode("unicode_escape").decode("ascii") for it in text
    )


def _printable(characters: Iterable[str]) -> str:
    kept: list[str] = []
    marks = 0
    for character in characters:
        if character in BLANKS or unicodedata.category(character) == "Zs":
            kept.append(" ")
        elif character.isprintable() and character not in _INVISIBLE:
            marks = marks + 1 if unicodedata.category(character) in _MARKS else 0
            if marks <= MARKS_IN_A_ROW:
                kept.append(character)
    return "".join(kept)
