"""What NVML says of one GPU, every answer checked: a device or driver may not offer it, or say what cannot be true."""

from __future__ import annotations

from typing import Any

import pynvml

from mission_tui.supervisor.gpu.line import GpuProcess, GpuSample

__all__ = ["busy_percent", "facts_of"]

MOST_W, MOST_C, MOST_MHZ = 10_000.0, 150.0, 20_000
_NOT_OFFERED = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_NoPermission)
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


def busy_percent(handle: Any) -> float | None:
    """Percent of the driver's last interval in which a kernel ran, 0..100."""
    rates = _ask("nvmlDeviceGetUtilizationRates", handle)
    return None if rates is None else min(100.0, float(rates.gpu))


def facts_of(handle: Any) -> GpuSample:
    """All but how busy it is."""
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
    return tuple(GpuProcess(pid, memory) for pid, memory in sorted(held.items()))


def _ask(name: str, handle: Any, *arguments: int) -> Any:
    """The answer, or None where this device, driver or release of `pynvml` does not offer it."""
    try:
        return getattr(pynvml, name)(handle, *arguments)
    except (AttributeError, *_NOT_OFFERED):
        return None
