"""Foreign text made safe to show: nothing in it can move the cursor, reorder a line or hide.

Every fixed-width cell, toast and log line passes through `literal`. Markup never comes into play, because nothing in
this room parses it.
"""

from __future__ import annotations

import unicodedata

__all__ = ["literal"]

_HIDDEN = "·"


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
