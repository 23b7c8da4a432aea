"""The lines between the GPU probe and the supervisor; apart, so that reading them does not load NVML."""

from __future__ import annotations

import msgspec

from mission_tui.fleet.strip import Cell

NO_INSTANCES = " (MIG mode, no instances)"
"""What the name of a GPU ends with of which nothing can be used."""


class GpuProcess(msgspec.Struct, frozen=True):
    """A process that holds memory of a GPU, in bytes; None where the driver does not tell.

    `busy` is the percent of the last seconds in which kernels of it ran, 0..100.
    """

    pid: int
    memory: int | None = None
    busy: float | None = None


class GpuSample(msgspec.Struct, frozen=True):
    """One GPU; None where the device does not answer. `busy`: percent 0..100, looked at many times since the last line.

    `slowed` says why the driver holds the clock down, such as "power cap". All but `busy` is of the last second. An
    instance of a GPU in MIG mode has the UUID of that as its `parent`. `unknown` says what could not be asked, and why.
    A driver that does not offer how busy it is, as for many vGPUs, is no failure: then `tells_busy` is false.
    """

    uuid: str
    name: str
    busy: Cell | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    clock_mhz: int | None = None
    slowed: tuple[str, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    parent: str = ""
    compute_mode: str | None = None
    unknown: tuple[str, ...] = ()
    tells_busy: bool = True


class ProbeLine(msgspec.Struct, frozen=True):
    """One line of the probe: the GPUs by index, or `note` and nothing after it. `rate_hz`: looks at each a second.

    `failed`: the note says what went wrong; without it there is no GPU here, or no driver.
    """

    gpus: tuple[GpuSample, ...] = ()
    note: str = ""
    rate_hz: float = 0.0
    failed: bool = False
