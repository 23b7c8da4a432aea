"""A run that is queued for the machine, and what the machine can still give, within the limits of all runs together.

Those stand in `limits.toml`, of the user and of whoever looks after the machine. The tighter of two files holds; what
is absent is not limited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, inspect, structs

from mission_tui.fleet.capacity.placement import Gpu, choose, promised
from mission_tui.fleet.capacity.reservation import Claim
from mission_tui.fleet.specs.schema import Place, fit_table
from mission_tui.fleet.specs.spec import LimitsKeep

__all__ = ["PRIORITY_S", "Headroom", "MachineLimits", "QueuedRun", "read_limits", "tightest"]


Bytes = Annotated[int, Meta(ge=1, le=10**18)]
Count = Annotated[int, Meta(ge=1, le=4096)]


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
    shape = inspect.type_info(MachineLimits)
    assert isinstance(shape, inspect.StructType)
    return msgspec.convert(fit_table(shape, table, Place(str(path))), MachineLimits)


def tightest(limits: Sequence[MachineLimits]) -> MachineLimits:
    """Of each limit the least."""
    named = {name: [it for each in limits if (it := getattr(each, name)) is not None] for name in _NAMES}
    return MachineLimits(**{name: min(values) for name, values in named.items() if values})


_NAMES = MachineLimits.__struct_fields__


PRIORITY_S = 3600.0
"""What a step of priority is worth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRun:
    """A run that would begin: what it will take, by estimate, and the GPUs (UUIDs) that it may use, none on the CPU.

    `since_t` (unix s) is when it came; `held` says what else it waits for, in a sentence.
    """

    id: str
    name: str
    claim: Claim
    gpus: tuple[str, ...] = ()
    limits: LimitsKeep = field(default_factory=LimitsKeep)
    since_t: float = 0.0
    held: str = ""

    @property
    def place(self) -> tuple[float, str]:
        """Who has less stands further in front."""
        return self.since_t - PRIORITY_S * self.limits.priority, self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """What the machine can still give, in bytes; None is not known and lacks nobody.

    `ram_free` is promised to no run of this user; `ram_unpromised` to no run of anybody. `ram_taken`, `cores_busy` and
    `runs` are this user's live runs, which `caps` limit.
    """

    cores: int
    gpus: tuple[Gpu, ...] = ()
    ram_free: int | None = None
    ram_unpromised: int | None = None
    ram_taken: int = 0
    disk_free: int | None = None
    cores_busy: int = 0
    runs: int = 0
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
