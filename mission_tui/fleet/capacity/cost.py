"""What a run takes of the machine: what it claims and was promised, as supervisors of all runs roots and users tell
each other, and what it is going to cost: memory, cores, and time at the pace that runs like it had on this machine.
Pure.

A run's claim is its estimate until it has done an update, and from then on what was seen. Only what is still to be
taken counts against others: what is held already shows in the machine's own meters.

A pace is only ever one that was seen; where nothing like the run has trained here, time is not known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct, structs

from mission_tui.fleet.capacity.machine import KEEPER_BYTES, MIB, busy_cores, estimate_memory
from mission_tui.fleet.events.processes import Peak
from mission_tui.fleet.specs.spec import Spec, rollout_size

MOST_CORES = 4096
"""Of a node whose cores nobody knows here."""

MOST_BYTES = 1 << 50
Bytes = Annotated[int, Meta(ge=0, le=MOST_BYTES)]
MOST_CLAIMS = 512
CONTEXT_BYTES = 832 * MIB
"""What CUDA, its kernels and torch's libraries take of a GPU whatever the net: of an H100 612 MiB before the first
tensor, and 210 more once it trains; less of a smaller GPU.
"""
_COPIES_ON_GPU = 2.3
"""Of what an update holds at once: captured gradient steps keep their own memory. `fast`, `heavy` and `beast` took 906,
1,106 and 1,640 MiB of that card.
"""


class Claim(Struct, frozen=True, kw_only=True):
    """One run: cores it keeps busy, and bytes it was promised, of which it holds some; `gpu` is a UUID."""

    cores: Annotated[int, Meta(ge=0, le=4096)] = 0
    ram_bytes: Bytes = 0
    ram_held_bytes: Bytes = 0
    gpu: Annotated[str, Meta(max_length=80)] = ""
    vram_bytes: Bytes = 0
    vram_held_bytes: Bytes = 0


class Reservations(Struct, frozen=True, kw_only=True):
    """All claims of one supervisor, which is told from a later process of its number by boot and start time (ticks)."""

    boot_id: Annotated[str, Meta(max_length=64)]
    pid: Annotated[int, Meta(ge=1, le=1 << 31)]
    start_time: Annotated[int, Meta(ge=0, le=1 << 62)]
    claims: Annotated[tuple[Claim, ...], Meta(max_length=MOST_CLAIMS)] = ()


class Reserved(Struct, frozen=True):
    """Claims of another living supervisor. `trusted`: its user is this one (`own`) or root, so that it may refuse a
    launch.
    """

    user: str
    trusted: bool
    claims: tuple[Claim, ...]
    own: bool = False


def claim_for(spec: Spec, cores: int, gpu: str | None, seen: Peak | None = None) -> Claim:
    """What a run of `spec` on `cores` cores is going to take; `gpu` (UUID) is the one it may use.

    That is what was `seen` of runs like it, else an estimate. Of a command nothing is known but its keeper then.
    """
    if spec.run.command is not None:
        return Claim(cores=busy_cores(spec, cores), ram_bytes=KEEPER_BYTES if seen is None else seen.rss_bytes)
    memory = estimate_memory(spec, cores)
    ram = memory.total_bytes if seen is None else seen.rss_bytes
    claim = Claim(cores=busy_cores(spec, cores), ram_bytes=min(ram, MOST_BYTES))
    if gpu is None:
        return claim
    vram = CONTEXT_BYTES + int(_COPIES_ON_GPU * memory.tensor_bytes)
    if seen is not None and seen.vram_bytes is not None:
        vram = seen.vram_bytes
    return structs.replace(claim, gpu=gpu, vram_bytes=min(vram, MOST_BYTES))


def claim_with_usage(claim: Claim, *, trains: bool, held_bytes: int, vram_held_bytes: int | None) -> Claim:
    """The claim of a run that holds so much now; once it `trains`, what it holds is all that it will take.

    None is not known: the estimate stays.
    """
    ram = held_bytes if trains else max(claim.ram_bytes, held_bytes)
    vram, held = claim.vram_bytes, vram_held_bytes or 0
    if vram_held_bytes is not None:
        vram = held if trains else max(vram, held)
    return structs.replace(
        claim, ram_bytes=ram, ram_held_bytes=min(held_bytes, ram), vram_bytes=vram, vram_held_bytes=min(held, vram)
    )


def outstanding_ram(claims: Sequence[Claim]) -> int:
    """Bytes of memory that these runs will still take."""
    return sum(max(0, claim.ram_bytes - claim.ram_held_bytes) for claim in claims)


def outstanding_vram(claims: Sequence[Claim], gpu: str) -> int:
    """Bytes of the GPU's memory that these runs will still take."""
    return sum(max(0, claim.vram_bytes - claim.vram_held_bytes) for claim in claims if claim.gpu == gpu)


class ReferenceSpeed(Struct, frozen=True, kw_only=True):
    """How fast runs of these settings were, by the median over `runs` of them, of which the newest is called `name` and
    was so at unix time `t`; `differs` are the settings that are others here. Half of the updates of each and more had
    `low_steps_per_s` to `high_steps_per_s`.

    `start_s` is from its attempt's start to its first rollout; None where that is not on record any more.
    """

    name: str
    t: float
    steps_per_s: float
    start_s: float | None = None
    differs: tuple[str, ...] = ()
    low_steps_per_s: float | None = None
    high_steps_per_s: float | None = None
    runs: int = 1


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
    pace: ReferenceSpeed | None = None


def cost_of(
    claim: Claim, peak: Peak | None, pace: ReferenceSpeed | None, *, gpu: int | None = None, waits: str = ""
) -> Cost:
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


def estimated_cost(
    spec: Spec, cores: int, peak: Peak | None = None, pace: ReferenceSpeed | None = None, *, driver: bool
) -> Cost:
    """The cost of a run of `spec` without asking the machine, so it is left open on which GPU it would be.

    `driver`: whether the machine, of `cores` cores, has one for GPUs.
    """
    wants = driver and spec.run.command is None and spec.run.device != "cpu"
    return cost_of(claim_for(spec, cores, "any" if wants else None, peak), peak, pace)


def claim_elsewhere(spec: Spec, peak: Peak | None = None) -> Claim:
    """What a run of `spec` will take of the node that its engine gives it; a GPU where it is to have one."""
    wants = spec.run.command is None and spec.run.device.startswith("cuda")
    return claim_for(spec, MOST_CORES, "any" if wants else None, peak)


def first_update_s(spec: Spec, pace: ReferenceSpeed | None) -> float | None:
    """Seconds from the start of a run of `spec` to the end of its first update."""
    if pace is None or pace.start_s is None:
        return None
    return pace.start_s + rollout_size(spec) / pace.steps_per_s


def whole_run_s(spec: Spec, pace: ReferenceSpeed | None) -> float | None:
    """Seconds that a run of `spec` trains: its budget in whole updates at `pace`, or the time that it asks for."""
    if spec.run.duration_s is not None:
        return spec.run.duration_s
    if pace is None or spec.run.total_timesteps is None:
        return None
    return _steps(spec) / pace.steps_per_s


def whole_run_range_s(spec: Spec, pace: ReferenceSpeed | None) -> tuple[float, float] | None:
    """Between what the seconds of `whole_run_s` lie; None where they are given, or nothing is known of it."""
    if spec.run.duration_s is not None or spec.run.total_timesteps is None or pace is None:
        return None
    if pace.low_steps_per_s is None or pace.high_steps_per_s is None:
        return None
    return _steps(spec) / pace.high_steps_per_s, _steps(spec) / pace.low_steps_per_s


def _steps(spec: Spec) -> int:
    """The budget in whole updates."""
    rollout = rollout_size(spec)
    return math.ceil((spec.run.total_timesteps or 0) / rollout) * rollout
