"""Why a GPU that is mostly idle is no trouble: said of the one case where people worry without reason."""

from __future__ import annotations

from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.ipc.replies import DetailsReply

__all__ = ["NORMAL", "calm_share", "lone_share"]

NORMAL = "10-25% is normal for one MLP run"
_NORMAL_PERCENT = 25.0
_LEAST_PERCENT = 1.0


def lone_share(snapshot: FleetSnapshot, gpu: int = 0) -> float | None:
    """Mean percent of a GPU while a single run is alive and leaves most of it idle; None in any other case.

    A GPU that does nothing at all is not in use, and then there is nothing to explain.
    """
    mean = snapshot.gpus[gpu].util.mean if gpu < len(snapshot.gpus) else None
    alone = sum(view.state in ALIVE for view in snapshot.runs) == 1
    return mean if alone and mean is not None and _LEAST_PERCENT <= mean <= _NORMAL_PERCENT else None


def calm_share(snapshot: FleetSnapshot | None, view: RunView, details: DetailsReply) -> str:
    """The sentence for `view`, if it is that run and trains on that GPU; else nothing."""
    device = str(details.effective.get("run", {}).get("device", ""))
    name, _, index = device.partition(":")
    if snapshot is None or name != "cuda" or view.state not in ALIVE or "Mlp" not in details.spec.ppo.policy:
        return ""
    mean = lone_share(snapshot, int(index) if index.isdigit() else 0)
    if mean is None:
        return ""
    return f"GPU {mean:.0f}% busy on average: {NORMAL}, most of its time goes into the environments. No finding."
