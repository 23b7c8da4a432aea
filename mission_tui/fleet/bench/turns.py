"""The order in which the repeats of two presets are run: A B, B A, A B: a machine that slows down hurts both."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Turn", "turns"]


@dataclass(frozen=True, slots=True)
class Turn:
    """Repeat `number` (from 1) of side `side` (0 is the preset itself, 1 what it is held against)."""

    side: int
    number: int


def turns(repeats: int, sides: int) -> tuple[Turn, ...]:
    """Every repeat of every side once; each further round goes the other way round."""
    forth = tuple(range(sides))
    return tuple(
        Turn(side, number) for number in range(1, repeats + 1) for side in (forth if number % 2 else reversed(forth))
    )
