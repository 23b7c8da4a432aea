"""Hostile strings: markup, escapes of every kind, bidi and invisible characters, and characters from anywhere."""

from __future__ import annotations

import random

__all__ = ["MARK", "hostile"]

MARK = "\u00a4"
"""The program itself never draws it: where it is seen, foreign text was drawn."""

FRAGMENTS = (
    "[/", "[/]", "[bold]", "[red", "[@click=app.leave]x[/]", "[link=file:///etc/passwd]", "$(x)", "{0}",
    "%s", "\\",
    "\x1b[2J", "\x1b[31m", "\x1b[?1049l", "\x1b[6n", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\",
    "\x1b]52;c;aGk=\x07",
    "\x1bP+q544e\x1b\\", "\x1b^x\x1b\\", "\x1b_x\x1b\\", "\x1bc", "\x1b#8", "\x9b31m", "\x9d0;t\x9c",
    "\x90x\x9c", "\x84",
    "\u202e", "\u2066", "\u2069", "\u200b", "\u200d", "\ufeff", "\u2028", "\u2029", "\u00ad", "\u061c",
    "\ufff9", "\U000e0041",
    "Z\u0351\u036b\u0343\u0323\u0348", "e\u0301" * 20, "\u0e33" * 4, "日本語", "ﷺ", "\uff21", "🚀", "👩‍👩‍👧",
    "🏳️‍🌈", "\U0001f1e9", "\ud800",
    "\udfff", "\t", "\r", "\n", "\b", "\x00", "\x07", "\x7f", "\x0e", "\x0f", "plain", "a" * 200, " ",
    "\u3000", "\u00a0", "",
)  # fmt: skip


def hostile(luck: random.Random, *, marked: bool = False) -> str:
    """One string: fragments, and characters from anywhere; one that is `marked` shows by `MARK` that it was drawn."""
    parts = [luck.choice(FRAGMENTS) for _ in range(luck.randrange(1, 5))]
    parts += [chr(luck.randrange(0x110000)) for _ in range(luck.randrange(3))]
    luck.shuffle(parts)
    return MARK * marked + "".join(parts)
