"""What is said of a machine: how it is shared, and what each of several offers for a launch.

How one is shared: what the runs take together, what other programs take, and whether kernels of several processes run
side by side on one GPU (NVIDIA MPS), or the processes take turns. MPS is explained and offered as a command to copy.
Nothing here starts it: a fatal GPU fault of one of its clients can take the others with it, so whether that is worth it
is the person's to say.

What one offers: how many of the runs of a launch would begin there at once, and when the last would be through. A user
who asks for the best machine gets the one on which the fewest runs wait, and of several such the one that is through
first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from mission_tui.fleet.views.snapshot import FleetSnapshot, GpuMeters, HostMeters, RunView
from mission_tui.present.numbers import duration


class Offer(Struct, frozen=True, order=True):
    """Of `runs` so many wait; the last one trains until `takes_s` (infinite where nothing like it has run there)."""

    waits: int
    takes_s: float
    runs: int = 1

    @property
    def sentence(self) -> str:
        """For people: `1 of 1 would begin at once and train for 3m20`."""
        words = f"{self.runs - self.waits} of {self.runs} would begin at once"
        return words if self.takes_s == math.inf else f"{words} and train for {duration(self.takes_s)}"


def best(offers: Mapping[str, Offer]) -> str | None:
    """The machine with the best offer, the first of equals; None without any."""
    return min(offers, key=lambda name: (offers[name].waits, offers[name].takes_s)) if offers else None


START = "nvidia-cuda-mps-control -d"
STOP = "echo quit | nvidia-cuda-mps-control"


class Share(Struct, frozen=True):
    """Processor percent (100 is one core) and bytes of GPU memory: `ours`, and what others take of the machine.

    None is not known. Resident memory is no sum that means anything, since processes share pages.
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


class Mps(Struct, frozen=True):
    """Whether its control program is `installed` here, and `running` behind the pipes in `folder`, `ours` or not."""

    installed: bool
    running: bool
    folder: str
    ours: bool = True


def sharing_sentence(snapshot: FleetSnapshot, mps: Mps) -> str | None:
    """What runs that share a GPU should know of MPS; None while surely no two of them do."""
    exclusive = [str(place) for place, gpu in enumerate(snapshot.gpus) if gpu.compute_mode == "exclusive process"]
    if exclusive and not mps.running:
        places = ", ".join(exclusive)
        return f"GPU {places} takes one process at a time (compute mode exclusive): without MPS a second run fails"
    holders = [view for view in snapshot.runs if view.usage is not None and view.usage.vram_bytes]
    if not snapshot.gpus or len(holders) <= len(snapshot.gpus):
        return None
    if mps.running and mps.ours:
        return "MPS is on: what several runs compute on one GPU runs side by side"
    if mps.running:
        return f"runs share a GPU and take turns on it: the MPS that runs at {mps.folder} is another user's"
    if not mps.installed:
        return "runs share a GPU and take turns on it: NVIDIA MPS, which would run them side by side, is not installed"
    return f"runs share a GPU and take turns on it; side by side they run under MPS, for runs that start after: {START}"
