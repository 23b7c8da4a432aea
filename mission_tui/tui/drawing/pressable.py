"""A line of hints whose keys can be clicked as well: `Esc back   y kill now`, two blanks between them."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["key_at"]

_NAMED: Mapping[str, str] = {
    "Esc": "escape",
    "Enter": "enter",
    "Tab": "tab",
    "PgDn": "pagedown",
    "F5": "f5",
    "?": "question_mark",
}
_HINT = re.compile(r"\S+(?: \S+)*")


def key_at(hints: str, place: int) -> str | None:
    """The key, by Textual's name, with which the hint at `place` (cells from its left end) begins; None for no key."""
    for hint in _HINT.finditer(hints):
        if hint.start() <= place < hint.end():
            return _key(hint.group().partition(" ")[0])
    return None


def _key(word: str) -> str | None:
    if word.startswith("Ctrl-"):
        return f"ctrl+{word.removeprefix('Ctrl-').lower()}"
    return word if len(word) == 1 and word.isascii() and word.isalnum() else _NAMED.get(word)
