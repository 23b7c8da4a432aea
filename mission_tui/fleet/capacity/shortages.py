"""What keeps a run from beginning, each in a sentence with numbers that goes on after the run's name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from mission_tui.fleet.capacity.headroom import Headroom, QueuedRun
from mission_tui.fleet.capacity.placement import Gpu

__all__ = ["LIMITS_FILE", "gpu_shortage", "machine_shortage", "never_fits", "own_limit_shortage", "size_of"]

LIMITS_FILE = "limits.toml"


def never_fits(run: QueuedRun, headroom: Headroom) -> Iterator[str]:
    """Why `run` can never begin, however long it waits: sentences with numbers.

    Whether the machine has the memory at all is said by `fleet.capacity.machine.assess`, with what would fit.
    """
    claim, caps = run.claim, headroom.caps
    yield from _beyond(claim.ram_bytes, "memory", None, "", caps.ram, "gives to runs")
    gpus = headroom.gpus_of(run)
    totals = [gpu.total for gpu in gpus if gpu.total is not None]
    most = max(totals) if gpus and len(totals) == len(gpus) else None
    has = "the largest GPU that it may use has" if len(gpus) > 1 else "its GPU has"
    yield from _beyond(claim.vram_bytes if gpus else 0, "GPU memory", most, has, caps.vram, "gives to runs of a GPU")
    if caps.cores is not None and claim.cores > caps.cores:
        yield f"keeps {claim.cores} cores busy and {LIMITS_FILE} gives {caps.cores} to runs"
    if run.limits.cores_free > headroom.cores:
        yield f"keep.limits.cores_free asks for {run.limits.cores_free} cores and this machine has {headroom.cores}"


def size_of(size_bytes: int, *, up: bool = False) -> str:
    """`size_bytes` in words, what is needed rounded `up` and what is there down, so that a lack always shows."""
    rounded = math.ceil if up else math.floor
    if size_bytes < 1 << 30:
        return f"{max(0, rounded(size_bytes / (1 << 20)))} MiB"
    return f"{rounded(size_bytes * 10 / (1 << 30)) / 10:.1f} GiB"


def _beyond(need: int, what: str, total: int | None, has: str, cap: int | None, gives: str) -> Iterator[str]:
    if total is not None and need > total:
        yield f"needs about {size_of(need, up=True)} of {what} and {has} {size_of(total)}"
    elif cap is not None and need > cap:
        yield f"needs about {size_of(need, up=True)} of {what} and {LIMITS_FILE} {gives} {size_of(cap)}"


def machine_shortage(run: QueuedRun, headroom: Headroom) -> str:
    """What the machine as a whole cannot give `run` now; empty when there is enough."""
    caps, need = headroom.caps, run.claim.ram_bytes
    if caps.runs is not None and headroom.runs >= caps.runs:
        return f"waits for another run's end: {LIMITS_FILE} allows {caps.runs} at once, and as many are live"
    if caps.cores is not None and headroom.cores_busy and headroom.cores_busy + run.claim.cores > caps.cores:
        left = max(0, caps.cores - headroom.cores_busy)
        return (
            f"waits for {_cores(run.claim.cores)}: {left} of the {caps.cores} that {LIMITS_FILE} gives to runs are free"
        )
    if headroom.ram_free is not None and need > headroom.ram_free:
        free = size_of(max(0, headroom.ram_free))
        return f"waits for {size_of(need, up=True)} of memory: {free} are free and promised to no run"
    if caps.ram is not None and headroom.ram_taken + need > caps.ram:
        left = max(0, caps.ram - headroom.ram_taken)
        given = f"{size_of(left)} are left of the {size_of(caps.ram)} that {LIMITS_FILE} gives to runs"
        return f"waits for {size_of(need, up=True)} of memory: {given}"
    return ""


def gpu_shortage(run: QueuedRun, gpus: Sequence[Gpu], headroom: Headroom) -> str:
    """Why none of `gpus` has room for `run`."""
    caps, need = headroom.caps, run.claim.vram_bytes
    most = caps.runs_per_gpu
    if most is not None and all(gpu.runs >= most for gpu in gpus):
        where = "it" if len(gpus) == 1 else "each"
        return f"waits for a GPU: {LIMITS_FILE} allows {most} runs on one, and {where} has as many"
    capped = headroom.capped(gpus)
    free = max((gpu.free or 0 for gpu in capped), default=0)
    where = "is free and promised to no run" if len(gpus) == 1 else "is free and promised to no run on any GPU"
    bound = f" under {LIMITS_FILE}" if [gpu.free for gpu in capped] != [gpu.free for gpu in gpus] else ""
    most_free = f"no more than {size_of(max(0, free))} {where}{bound}"
    return f"waits for {size_of(need, up=True)} of GPU memory: {most_free}; run.device = 'cpu' needs none"


def own_limit_shortage(run: QueuedRun, headroom: Headroom, gpus: Sequence[Gpu]) -> str:
    """Which of its own limits keeps `run` from beginning although the machine could carry it."""
    own = run.limits
    if headroom.disk_free is not None and headroom.disk_free < own.disk_free:
        asked = f"keep.limits.disk_free asks for {_decimal(own.disk_free)}"
        return f"waits for the disk: {_decimal(headroom.disk_free)} free, {asked}"
    if (
        own.ram_free
        and headroom.ram_unpromised is not None
        and headroom.ram_unpromised < max(own.ram_free, run.claim.ram_bytes)
    ):
        asked = f"keep.limits.ram_free asks for {_decimal(own.ram_free)}"
        return f"waits for memory: {_decimal(max(0, headroom.ram_unpromised))} are free and promised to no run, {asked}"
    if own.cores_free and headroom.cores_busy and headroom.cores - headroom.cores_busy < own.cores_free:
        busy = f"runs keep {min(headroom.cores, headroom.cores_busy)} of {headroom.cores} busy"
        return f"waits for cores: {busy}, keep.limits.cores_free asks for {own.cores_free}"
    if own.runs is not None and headroom.runs >= own.runs:
        return f"waits for another run's end: {headroom.runs} are live, and keep.limits.runs allows {own.runs} with it"
    if gpus and headroom.choose_for(run, gpus) is None:
        words = [f"keep.limits.vram_free asks for {_decimal(own.vram_free)}"] if own.vram_free else []
        words += [f"keep.limits.runs_per_gpu allows {own.runs_per_gpu} with it"] if own.runs_per_gpu else []
        return f"waits for a GPU: {' and '.join(words)}"
    return ""


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"


def _decimal(size_bytes: int) -> str:
    """In the decimal units in which a preset's limit is written."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 10**9 else f"{size_bytes / 1e6:.0f} MB"
