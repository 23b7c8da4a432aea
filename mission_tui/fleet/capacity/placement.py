"""Which GPU a run trains on: the one that its spec and its shell name, else the calmest of those with room for it.

Free memory is what nobody holds and no run was promised. What is not known never counts against a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

__all__ = ["DUTY", "Gpu", "choices", "choose", "gpu_for", "promised", "scarce"]

DUTY = 0.15
"""How much of a GPU a PPO run keeps busy until that is seen: it mostly waits for environments (health guide 8)."""
_STEP = 0.1
"""Busy shares that differ by less say nothing: they change from one look to the next."""


class Gpu(Struct, frozen=True):
    """One GPU as a run finds it: `free` and `total` in bytes, `runs` that live on it, and how `busy` (0..1) it will be.

    `taken` bytes are claimed by those runs.
    """

    uuid: str
    total: int | None
    free: int | None
    runs: int = 0
    busy: float = 0.0
    taken: int = 0


def choices(device: str, visible: str | None, uuids: Sequence[str]) -> tuple[str, ...]:
    """The GPUs of `uuids` (in the driver's order) that `run.device` leaves open, seen through `CUDA_VISIBLE_DEVICES`.

    One where somebody chose by number, none for the CPU and where what is visible cannot be told.
    """
    if device not in ("auto", "cuda"):
        only = gpu_for(device, visible, uuids)
        return () if only is None else (only,)
    seen = _seen(visible, uuids)
    # A word that means nothing here may be part of a GPU, or another machine's: CUDA ends the list there.
    known = [uuid for uuid in seen if uuid is not None]
    return tuple(dict.fromkeys(known)) if len(known) == len(seen) else ()


def gpu_for(device: str, visible: str | None, uuids: Sequence[str]) -> str | None:
    """The GPU of `uuids` (in the driver's order) that `run.device` means where `CUDA_VISIBLE_DEVICES` is `visible`.

    None for the CPU, and for what cannot be told.
    """
    kind, _, index = device.partition(":")
    if kind not in ("auto", "cuda"):
        return None
    seen = _seen(visible, uuids)
    place = int(index) if index.isdigit() else 0
    return seen[place] if place < len(seen) else None


def choose(gpus: Iterable[Gpu], need_bytes: int, most_runs: int | None = None) -> Gpu | None:
    """Of the GPUs with room for `need_bytes` and one more run, the least busy, then the one with most free memory."""
    fitting = [gpu for gpu in gpus if gpu.free is None or gpu.free >= need_bytes]
    fitting = [gpu for gpu in fitting if most_runs is None or gpu.runs < most_runs]
    # Equal ones keep the driver's order: `min` takes the first.
    return min(fitting, key=lambda gpu: (round(gpu.busy / _STEP), -(gpu.free or 0)), default=None)


def scarce(gpus: Iterable[Gpu]) -> Gpu | None:
    """The GPU to keep for a run that finds no room: the one with most free memory, which has it soonest."""
    return max(gpus, key=lambda gpu: (gpu.free or 0, -gpu.runs), default=None)


def promised(gpu: Gpu, need_bytes: int) -> Gpu:
    """`gpu` once another run was given `need_bytes` of it."""
    free = None if gpu.free is None else gpu.free - need_bytes
    return structs.replace(gpu, free=free, runs=gpu.runs + 1, busy=gpu.busy + DUTY, taken=gpu.taken + need_bytes)


def _seen(visible: str | None, uuids: Sequence[str]) -> list[str | None]:
    return list(uuids) if visible is None else [_shown(word.strip(), uuids) for word in visible.split(",")]


def _shown(word: str, uuids: Sequence[str]) -> str | None:
    if word.isdigit():
        return uuids[int(word)] if int(word) < len(uuids) else None
    return next((uuid for uuid in uuids if word and uuid.startswith(word)), None)
