"""What runs have been promised of the machine, as supervisors of all runs roots and users tell each other.

A run's claim is its estimate until it has done an update, and from then on what was seen. Only what is still to be
taken counts against others: what is held already shows in the machine's own meters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct, structs

from mission_tui.fleet.capacity.machine import KEEPER_BYTES, MIB, busy_cores, estimate_memory
from mission_tui.fleet.events.processes import Peak
from mission_tui.fleet.specs.spec import Spec

__all__ = ["Claim", "Reservations", "Reserved", "claim_for", "claim_with_usage", "outstanding_ram", "outstanding_vram"]

MOST_BYTES = 1 << 50
Bytes = Annotated[int, Meta(ge=0, le=MOST_BYTES)]
MOST_CLAIMS = 512
CONTEXT_BYTES = 512 * MIB
"""What CUDA and torch's libraries take of a GPU before the first tensor: a quarter to half a GiB, by driver and GPU."""
_OBS_FLOATS, _ACT_FLOATS = 42, 4
"""Those of MissionGym: nothing else is known before preflight."""


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
    """Claims of another living supervisor. `trusted`: its user is this one or root, so that it may refuse a launch."""

    user: str
    trusted: bool
    claims: tuple[Claim, ...]


def claim_for(spec: Spec, cores: int, gpu: str | None, seen: Peak | None = None) -> Claim:
    """What a run of `spec` on `cores` cores is going to take; `gpu` (UUID) is the one it may use.

    That is what was `seen` of runs like it, else an estimate. Of a command nothing is known but its keeper then.
    """
    if spec.run.command is not None:
        return Claim(cores=busy_cores(spec, cores), ram_bytes=KEEPER_BYTES if seen is None else seen.rss_bytes)
    memory = estimate_memory(spec, _OBS_FLOATS, _ACT_FLOATS, cores)
    ram = memory.total_bytes if seen is None else seen.rss_bytes
    claim = Claim(cores=busy_cores(spec, cores), ram_bytes=min(ram, MOST_BYTES))
    if gpu is None:
        return claim
    vram = CONTEXT_BYTES + memory.tensor_bytes
    if seen is not None and seen.vram_bytes is not None:
        vram = seen.vram_bytes
    return structs.replace(claim, gpu=gpu, vram_bytes=min(vram, MOST_BYTES))


def claim_with_usage(claim: Claim, *, trains: bool, held_bytes: int, vram_held_bytes: int | None) -> Claim:
    """The claim of a run that holds so much now; once it `trains`, what it holds is all that it will take.

    None is what nobody tells: the estimate stays.
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
