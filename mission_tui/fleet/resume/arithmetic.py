"""Rulings on how numbers are computed: none changes what is learned, and most change the last bits of it."""

from __future__ import annotations

from mission_tui.fleet.resume.sides import Ruling, Sides, always

__all__ = ["NOT_EXACT", "tf32"]

NOT_EXACT = always("note", "continued, not exact: floating-point sums and random streams differ from before")


def tf32(sides: Sides) -> Ruling:
    """TF32 exists on CUDA only, so between two attempts on a CPU the switch does nothing."""
    if sides.was.run.device == sides.now.run.device == "cpu":
        return Ruling("safe", "TF32 exists on CUDA only, so on a CPU it changes nothing")
    return NOT_EXACT(sides)
