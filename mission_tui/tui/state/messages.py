"""What the screen has told a person, and how much of it toasts show at once. Pure.

Toasts lie over the lower rows of the screen, so they cover few of them: sentences about several runs that say the same
are one, what is too long is cut, and the whole of everything stays in the list of the key `M`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from mission_tui.tui.drawing.strips import wrap

Severity = Literal["information", "warning", "error"]

MOST_ROWS = 3
"""So many rows of the screen toasts cover at once."""
KEPT = 200
_REST = "… M has the rest"
_SHARE, _EDGE, _SCROLL_BAR = 0.7, 3, 2
"""Of the rack's width, at most, and the cells of a toast beside its words, as in `app.tcss`. Textual's rack of toasts
keeps room for a scroll bar.
"""
_NAMED = re.compile(r"(?P<name>\S+): (?P<said>.+)", re.DOTALL)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class Message(Struct, frozen=True):
    """A sentence that was told at unix time `t`."""

    t: float
    severity: Severity
    sentence: str


def letters(width: int) -> int:
    """How many cells a row of a toast has for words on a screen of `width` cells."""
    return max(len(_REST), int((width - _SCROLL_BAR) * _SHARE) - _EDGE)


def rows(told: Iterable[str], width: int) -> int:
    """How many rows toasts of `told` cover together on a screen of `width` cells."""
    return sum(len(wrap(it, letters(width))) for it in told)


def shortened(text: str, most: int, width: int, *, more: bool = False) -> str:
    """`text` if `most` rows (at least 1) hold it and no `more` follows that has no room; else as much of it as they
    hold, with the words where the rest is.
    """
    room = letters(width)
    wrapped = wrap(text, room)
    if len(wrapped) <= most and not more:
        return text
    *whole, last = wrapped[: max(1, most)] or [""]
    return " ".join((*whole, last[: room - len(_REST)].rstrip(" .,;:") + _REST))


def merged(sentences: Iterable[str]) -> list[str]:
    """`sentences`, where those that begin with a name and are else alike but for numbers are one, of all the names."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for sentence in sentences:
        named = _NAMED.fullmatch(sentence)
        name, said = (named["name"], named["said"]) if named is not None else ("", sentence)
        alike.setdefault(_NUMBER.sub("0", said) if name else f"\n{sentence}", []).append((name, said))
    return [_as_one(same) for same in alike.values()]


def _as_one(same: list[tuple[str, str]]) -> str:
    (name, said), *others = same
    if not name:
        return said
    if not others:
        return f"{name}: {said}"
    names = [it for it, _ in others]
    if {it for _, it in others} == {said}:
        return f"{', '.join((name, *names[:-1]))} and {names[-1]}: {said}"
    *first, last = names
    return f"{name}: {said} ({' and '.join((', '.join(first), last)) if first else last} alike)"
