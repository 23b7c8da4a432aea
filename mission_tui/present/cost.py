"""What a launch would cost, in words: for several runs at once, and what the run that a pace is from had otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from mission_tui.fleet.capacity.cost import Cost, Pace
from mission_tui.present.numbers import size

_DIFFERING = 3


def all_at_once(costs: Sequence[Cost]) -> str:
    """Memory, GPU memory and cores that all of them take together."""
    vram = [cost.vram_bytes for cost in costs if cost.vram_bytes is not None]
    gpu = f", {size(sum(vram))} of GPU memory" if vram else ""
    ram, cores = size(sum(cost.ram_bytes for cost in costs)), sum(cost.cores for cost in costs)
    return f"all {len(costs)} at once: {ram} of memory{gpu}, {cores} cores"


def differing(pace: Pace) -> str:
    """The settings in which the run of this pace was another one, the first few; empty where none differs."""
    others = len(pace.differs) - _DIFFERING
    return ", ".join(pace.differs[:_DIFFERING]) + (f" and {others} more" if others > 0 else "")
