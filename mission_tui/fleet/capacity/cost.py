"""What a run is going to cost: memory, cores, and time at the pace that runs like it had on this machine. Pure.

A pace is only ever one that was seen; where nothing like the run has trained here, time is not known.
"""

from __future__ import annotations

import math

from msgspec import Struct

from mission_tui.fleet.capacity.reservation import Claim, claim_for
from mission_tui.fleet.events.processes import Peak
from mission_tui.fleet.specs.spec import Spec, rollout_size

__all__ = ["Cost", "Pace", "cost_of", "estimated_cost", "first_update_s", "whole_run_s"]


class Pace(Struct, frozen=True, kw_only=True):
    """How fast the run called `name` was at unix time `t`; `differs` are the settings that are others here.

    `start_s` is from its attempt's start to its first rollout; None where that is not on record any more.
    """

    name: str
    t: float
    steps_per_s: float
    start_s: float | None = None
    differs: tuple[str, ...] = ()


class Cost(Struct, frozen=True, kw_only=True):
    """One run's: bytes it will take at most, as `seen` of runs like it or by estimate, and `cores` it keeps busy.

    `vram_bytes` is None for one that uses no GPU. `gpu` is the number of that on which it would begin now, unless it
    `waits`, which is a sentence that goes on after its name. Without a `pace` nothing like it has trained here.
    """

    ram_bytes: int
    ram_seen: bool = False
    vram_bytes: int | None = None
    vram_seen: bool = False
    cores: int = 1
    gpu: int | None = None
    waits: str = ""
    pace: Pace | None = None


def cost_of(claim: Claim, peak: Peak | None, pace: Pace | None, *, gpu: int | None = None, waits: str = "") -> Cost:
    """What the run of `claim` costs; `peak` is what runs of its shape were seen to take, if any were."""
    return Cost(
        ram_bytes=claim.ram_bytes,
        ram_seen=peak is not None,
        vram_bytes=claim.vram_bytes if claim.gpu else None,
        vram_seen=peak is not None and peak.vram_bytes is not None,
        cores=claim.cores,
        gpu=gpu,
        waits=waits,
        pace=pace,
    )


def estimated_cost(spec: Spec, cores: int, peak: Peak | None = None, pace: Pace | None = None, *, driver: bool) -> Cost:
    """The cost of a run of `spec` as nobody knows it who asks no machine: on which GPU it would be is left open.

    `driver`: whether the machine, of `cores` cores, has one for GPUs.
    """
    wants = driver and spec.run.command is None and spec.run.device != "cpu"
    return cost_of(claim_for(spec, cores, "any" if wants else None, peak), peak, pace)


def first_update_s(spec: Spec, pace: Pace | None) -> float | None:
    """Seconds from the start of a run of `spec` to the end of its first update."""
    if pace is None or pace.start_s is None:
        return None
    return pace.start_s + rollout_size(spec) / pace.steps_per_s


def whole_run_s(spec: Spec, pace: Pace | None) -> float | None:
    """Seconds that a run of `spec` trains: its budget in whole updates at `pace`, or the time that it asks for."""
    if spec.run.duration_s is not None:
        return spec.run.duration_s
    if pace is None or spec.run.total_timesteps is None:
        return None
    rollout = rollout_size(spec)
    return math.ceil(spec.run.total_timesteps / rollout) * rollout / pace.steps_per_s
