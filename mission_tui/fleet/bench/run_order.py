"""The order in which the repeats of two presets are run: A B, B A, A B: a machine that slows down hurts both."""

from __future__ import annotations

__all__ = ["order_of"]


def order_of(number: int, sides: int) -> tuple[int, ...]:
    """The sides (0 is the preset itself, 1 what it is held against) in their order in round `number`, from 1."""
    forth = tuple(range(sides))
    return forth if number % 2 else forth[::-1]
