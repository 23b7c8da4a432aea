"""The lines between the GPU probe and the supervisor; apart, so that reading them does not load NVML."""

from __future__ import annotations

import msgspec

__all__ = ["GpuProcess", "GpuSample", "ProbeLine"]


class GpuProcess(msgspec.Struct, frozen=True):
    """A process that holds memory of a GPU, in bytes; None where the driver does not tell."""

    pid: int
    memory: int | None = None


class GpuSample(msgspec.Struct, frozen=True):
    """One GPU at one moment; None where the device does not answer. `busy_percent` 0..100."""

    uuid: str
    name: str
    busy_percent: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    processes: tuple[GpuProcess, ...] = ()


class ProbeLine(msgspec.Struct, frozen=True):
    """One line of the probe: the GPUs by index, or `note` and nothing after it."""

    gpus: tuple[GpuSample, ...] = ()
    note: str = ""
