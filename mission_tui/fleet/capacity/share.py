"""How much of the machine is ours: what the runs take together, and what is left for others to have taken."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from mission_tui.fleet.views.snapshot import GpuMeters, HostMeters, RunView

__all__ = ["Share", "share_of"]


class Share(Struct, frozen=True):
    """Processor percent (100 is one core) and bytes of GPU memory: `ours`, and what others take of the machine.

    None where nobody knows. Resident memory is no sum that means anything, since processes share pages.
    """

    cpu_ours: float
    cpu_others: float | None
    vram_ours: int | None
    vram_others: int | None


def share_of(host: HostMeters, gpus: Sequence[GpuMeters], runs: Sequence[RunView]) -> Share:
    """The machine as it is shared now; never below zero, as meters of different moments may say."""
    used = [view.usage for view in runs if view.usage is not None]
    ours = sum(usage.cpu_percent for usage in used)
    vram = [usage.vram_bytes for usage in used if usage.vram_bytes is not None]
    known = [gpu.memory_used for gpu in gpus if gpu.memory_used is not None]
    others = None if host.cpu_percent is None else max(0.0, host.cpu_percent * host.cores - ours)
    vram_ours = sum(vram) if vram else (0 if known else None)
    vram_others = None if not known or vram_ours is None else max(0, sum(known) - vram_ours)
    return Share(ours, others, vram_ours, vram_others)
