"""Rulings on how numbers are computed: none changes what is learned, and most change the last bits of it."""

from __future__ import annotations

from mission_tui.fleet.resume.sides import Ruling, Sides, always

__all__ = ["NOT_EXACT", "precision", "tf32"]

NOT_EXACT = always("note", "continued, not exact: floating-point sums and random streams differ from before")


def precision(sides: Sides) -> Ruling:
    """What is kept is float32 on both sides, so weights and moments fit; what is computed of them differs."""
    where = "to 8 bits" if sides.now.run.precision == "bf16" else "to 24 bits again"
    return Ruling("note", f"continued, not exact: layers round {where}; weights and Adam's moments stay float32")


def tf32(sides: Sides) -> Ruling:
    """TF32 exists on CUDA only, so between two attempts on a CPU the switch does nothing."""
    if sides.was.run.device == sides.now.run.device == "cpu":
        return Ruling("safe", "TF32 exists on CUDA only, so on a CPU it changes nothing")
    return NOT_EXACT(sides)
