"""What NVML says of one GPU, every answer checked: a device or driver may not offer it, or say what cannot be true."""

from __future__ import annotations

import statistics
import time
from typing import Any

import pynvml

from mission_tui.supervisor.gpu.line import GpuProcess, GpuSample

__all__ = ["NO_INSTANCES", "busy_percent", "facts_of", "instance_of", "instances_of"]

MOST_W, MOST_C, MOST_MHZ, MOST_PERCENT = 10_000.0, 150.0, 20_000, 100
_SUCCESS = 0
_NOT_OFFERED = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_FunctionNotFound,
    pynvml.NVMLError_NoPermission,
    pynvml.NVMLError_InvalidArgument,
)
"""The last is what some drivers say to a question about an instance that only whole GPUs can be asked."""
NO_INSTANCES = " (MIG mode, no instances)"
RECENT_S = 2.5
"""The driver samples processes about once a second, unevenly."""
_CORE, _STREAMING = 0, 1
"""NVML's numbers for the sensor on the chip and for the clock of the streaming multiprocessors."""
SLOWED_BY = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "heat (driver)",
    0x40: "heat",
    0x80: "power brake",
}
"""Reasons that somebody could do something about; idling and clocks that were set on purpose are none."""
COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}


def busy_percent(handle: Any) -> float | None:
    """Percent of the driver's last interval in which a kernel ran, 0..100."""
    rates = _ask("nvmlDeviceGetUtilizationRates", handle)
    return None if rates is None else min(100.0, float(rates.gpu))


def instances_of(handle: Any) -> list[int] | None:
    """The numbers of the instances of a GPU in MIG mode, which may be none; None where it is whole."""
    mode = _ask("nvmlDeviceGetMigMode", handle)
    if not mode or not mode[0]:
        return None
    most = _ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0
    return [number for number in range(most) if instance_of(handle, number) is not None]


def instance_of(handle: Any, number: int) -> Any:
    """The handle of an instance; None where there is none of this number."""
    try:
        return _ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
    except pynvml.NVMLError_NotFound:
        return None


def facts_of(handle: Any, parent: str = "") -> GpuSample:
    """All but how busy it is; of an instance `parent` is the UUID of its GPU."""
    memory = _ask("nvmlDeviceGetMemoryInfo", handle)
    power_mw = _ask("nvmlDeviceGetPowerUsage", handle)
    celsius = _ask("nvmlDeviceGetTemperature", handle, _CORE)
    clock = _ask("nvmlDeviceGetClockInfo", handle, _STREAMING)
    return GpuSample(
        uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
        name=str(pynvml.nvmlDeviceGetName(handle)),
        memory_used=None if memory is None or memory.used > memory.total else int(memory.used),
        memory_total=None if memory is None else int(memory.total),
        power_w=_within(None if power_mw is None else power_mw / 1000.0, MOST_W),
        temperature_c=_within(celsius, MOST_C),
        clock_mhz=clock if clock is not None and 0 <= clock <= MOST_MHZ else None,
        slowed=_slowed(handle),
        processes=_processes(handle),
        parent=parent,
        compute_mode=COMPUTE_MODES.get(_ask("nvmlDeviceGetComputeMode", handle)),
    )


def _within(value: float | None, most: float) -> float | None:
    """`value` where it can be true: drivers have said four million degrees."""
    return value if value is not None and 0 <= value <= most else None


def _slowed(handle: Any) -> tuple[str, ...]:
    reasons = _ask("nvmlDeviceGetCurrentClocksEventReasons", handle) or 0
    return tuple(word for bit, word in SLOWED_BY.items() if reasons & bit)


def _processes(handle: Any) -> tuple[GpuProcess, ...]:
    """Who holds memory there, for computing or drawing; one that does both is told once, with what it holds in all."""
    held: dict[int, int | None] = {}
    for name in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
        for process in _ask(name, handle) or ():
            memory = None if process.usedGpuMemory is None else int(process.usedGpuMemory)
            known = held.get(process.pid)
            held[process.pid] = memory if known is None else max(known, memory or 0)
    busy = _busy_by_process(handle) if held else None
    return tuple(
        GpuProcess(pid, memory, None if busy is None else busy.get(pid, 0.0)) for pid, memory in sorted(held.items())
    )


def _busy_by_process(handle: Any) -> dict[int, float] | None:
    """Percent of the last seconds by process, of those that used it; None where the driver does not tell.

    Drivers have said percents of many thousands for processes that had just begun.
    """
    since_us = int((time.time() - RECENT_S) * 1e6)
    try:
        samples = pynvml.nvmlDeviceGetProcessUtilization(handle, since_us)
    except pynvml.NVMLError_NotFound:
        return {}
    except (AttributeError, *_NOT_OFFERED):
        return None
    except pynvml.NVMLError as error:
        # `pynvml` raises "success" where there is nothing to copy.
        if getattr(error, "value", None) == _SUCCESS:
            return {}
        raise
    percents: dict[int, list[int]] = {}
    for sample in samples:
        if sample.smUtil <= MOST_PERCENT:
            percents.setdefault(sample.pid, []).append(sample.smUtil)
    return {pid: statistics.fmean(each) for pid, each in percents.items()}


def _ask(name: str, handle: Any, *arguments: int) -> Any:
    """The answer, or None where this device, driver or release of `pynvml` does not offer it."""
    try:
        return getattr(pynvml, name)(handle, *arguments)
    except (AttributeError, *_NOT_OFFERED):
        return None
