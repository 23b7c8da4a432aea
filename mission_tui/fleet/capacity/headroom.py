"""What the machine can still give to a queued run within the limits of all runs together, and which GPU the run trains
on.

The limits (memory, GPU memory, cores, number of runs) stand in `limits.toml`, the user's and the administrator's. The
tighter of two files holds; what is absent is not limited.

The GPU is the one that the run's spec and its shell name, else the calmest of those with room for it. Free memory is
what no process holds and no run was promised. What is not known never counts against a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field, structs
from msgspec.structs import replace

from mission_tui.fleet.capacity.cost import Claim
from mission_tui.fleet.specs.schema import Place, described, fit_table
from mission_tui.fleet.specs.spec import LimitsKeep

Bytes = Annotated[int, Meta(ge=1, le=10**18)]
Count = Annotated[int, Meta(ge=1, le=4096)]
DUTY = 0.15
"""How much of a GPU a PPO run keeps busy until that is seen: it mostly waits for environments (health guide 8)."""
_STEP = 0.1
"""Busy shares that differ by less say nothing: they change from one look to the next."""
PRIORITY_S = 3600.0
"""What a step of priority is worth."""


class MachineLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At most so much for all runs of a user together, whatever runs root they are in; None is no limit.

    `ram` bytes of memory, `vram` bytes of each GPU, `cores` that they keep busy, `runs` that live at once, and
    `runs_per_gpu` of them on one GPU.
    """

    ram: Bytes | None = None
    vram: Bytes | None = None
    cores: Count | None = None
    runs: Count | None = None
    runs_per_gpu: Count | None = None


def read_limits(table: Mapping[str, object], path: Path) -> MachineLimits:
    """The limits in `table`, parsed from the file at `path`. Raises `PresetError` naming file, key and remedy."""
    return msgspec.convert(fit_table(described(MachineLimits), table, Place(str(path))), MachineLimits)


def tightest(limits: Sequence[MachineLimits]) -> MachineLimits:
    """Of each limit the least."""
    named = {name: [it for each in limits if (it := getattr(each, name)) is not None] for name in _NAMES}
    return MachineLimits(**{name: min(values) for name, values in named.items() if values})


_NAMES = MachineLimits.__struct_fields__


class QueuedRun(Struct, frozen=True, kw_only=True):
    """A run that would begin: what it will take, by estimate, and the GPUs (UUIDs) that it may use, none on the CPU.

    `since_t` (unix s) is when it came; `held` says what else it waits for, in a sentence. One that is carried out
    `elsewhere` takes nothing of this machine, and waits for no room on it.
    """

    id: str
    name: str
    claim: Claim
    gpus: tuple[str, ...] = ()
    limits: LimitsKeep = field(default_factory=LimitsKeep)
    since_t: float = 0.0
    held: str = ""
    elsewhere: bool = False

    @property
    def place(self) -> tuple[float, str]:
        """What queued runs are sorted by: the least begins first."""
        return self.since_t - PRIORITY_S * self.limits.priority, self.id


class Headroom(Struct, frozen=True, kw_only=True):
    """What the machine can still give, in bytes; None is not known and never makes a run wait.

    `ram_free` is promised to no run of this user or root; `ram_unpromised` to no run of anybody. `ram_taken`,
    `cores_busy` and `runs` are this user's live runs, which `caps` limit; `whose` names them, `others` whose else's
    have reserved memory.
    """

    cores: int
    gpus: tuple[Gpu, ...] = ()
    ram_free: int | None = None
    ram_unpromised: int | None = None
    ram_taken: int = 0
    disk_free: int | None = None
    cores_busy: int = 0
    runs: int = 0
    whose: str = ""
    others: str = ""
    caps: MachineLimits = field(default_factory=MachineLimits)

    def without(self, claim: Claim, gpu: str) -> Headroom:
        """What is left once a run with `claim` begins, on `gpu`."""
        return replace(
            self,
            gpus=tuple(promised(it, claim.vram_bytes) if it.uuid == gpu else it for it in self.gpus),
            ram_free=None if self.ram_free is None else self.ram_free - claim.ram_bytes,
            ram_unpromised=None if self.ram_unpromised is None else self.ram_unpromised - claim.ram_bytes,
            ram_taken=self.ram_taken + claim.ram_bytes,
            cores_busy=self.cores_busy + claim.cores,
            runs=self.runs + 1,
        )

    def gpus_of(self, run: QueuedRun) -> list[Gpu]:
        """The GPUs that `run` may use."""
        return [gpu for gpu in self.gpus if gpu.uuid in run.gpus]

    def capped(self, gpus: Sequence[Gpu]) -> list[Gpu]:
        """`gpus` with no more free than the machine's limit leaves."""
        most = self.caps.vram
        if most is None:
            return list(gpus)
        left = [(gpu, most - gpu.taken) for gpu in gpus]
        return [structs.replace(gpu, free=cap if gpu.free is None else min(gpu.free, cap)) for gpu, cap in left]

    def choose_for(self, run: QueuedRun, gpus: Sequence[Gpu]) -> Gpu | None:
        """The one of `gpus` for `run`, with what its own limits ask for beside what it needs."""
        counts = (run.limits.runs_per_gpu, self.caps.runs_per_gpu)
        most = min((it for it in counts if it is not None), default=None)
        return choose(self.capped(gpus), max(run.claim.vram_bytes, run.limits.vram_free), most)


class Gpu(Struct, frozen=True):
    """One GPU as a run finds it: `free` and `total` in bytes, `runs` that live on it, and how `busy` (0..1) it will be.

    `taken` bytes are claimed by those runs. `names` are this user's runs on it, `elsewhere` counts those at other runs
    roots; `others` says of each other user how many runs there have claimed how many bytes.
    """

    uuid: str
    total: int | None
    free: int | None
    runs: int = 0
    busy: float = 0.0
    taken: int = 0
    names: tuple[str, ...] = ()
    elsewhere: int = 0
    others: tuple[tuple[str, int, int], ...] = ()


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
