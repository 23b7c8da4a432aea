"""NVIDIA MPS: whether kernels of several processes run side by side on one GPU, or the processes take turns.

It is explained and offered as a command to copy. Nothing here starts it: a fatal GPU fault of one of its clients can
take the others with it, so whether that is worth it is the person's to say.
"""

from __future__ import annotations

from dataclasses import dataclass

from mission_tui.fleet.views.snapshot import FleetSnapshot

__all__ = ["START", "STOP", "Mps", "sharing_sentence"]

START = "nvidia-cuda-mps-control -d"
STOP = "echo quit | nvidia-cuda-mps-control"


@dataclass(frozen=True, slots=True)
class Mps:
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
