"""Strips that are gone as soon as nothing draws them any more.

Textual (8.2.8) remembers in every strip what that was cut into. What is drawn in one piece is cut into itself: a circle
that only the garbage collector undoes, 60,000 objects from one collection to the next, and more memory for each record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.strip import Strip

__all__ = ["forget_whole"]

_divide = Strip.divide


def forget_whole() -> None:
    """Have no strip remember that it was cut into itself; to be called before the first picture."""
    setattr(Strip, "divide", _divide_or_leave)  # noqa: B010 - a method of Textual's


def _divide_or_leave(strip: Strip, cuts: Iterable[int]) -> Sequence[Strip]:
    cuts = [cut for cut in cuts if cut <= strip.cell_length]
    return [strip] if cuts == [strip.cell_length] else _divide(strip, cuts)
