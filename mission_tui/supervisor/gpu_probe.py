"""The one process that loads NVML: prints a JSON line of all GPUs four times a second, or one line that says why not.

A driver call may never return, so this runs apart and can be killed and abandoned; it ends when nobody reads its lines.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pynvml

from mission_tui.supervisor.gpu_line import GpuProcess, GpuSample, ProbeLine

__all__ = ["main"]

PERIOD_S = 0.25


def main() -> int:
    """Probe until the reader is gone; 0 when NVML is absent or the reader left."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return _say(ProbeLine(note=f"no GPU: {error}"))
    try:
        while True:
            started = time.monotonic()
            handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            if not handles:
                return _say(ProbeLine(note="no GPU: NVML lists none"))
            _say(ProbeLine(gpus=tuple(_sample(handle) for handle in handles)))
            time.sleep(max(0.0, PERIOD_S - (time.monotonic() - started)))
    except pynvml.NVMLError as error:
        return _say(ProbeLine(note=f"GPU meters stopped: {error}"))
    except BrokenPipeError:
        return 0


def _say(line: ProbeLine) -> int:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()
    return 0


def _sample(handle: Any) -> GpuSample:
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    rates = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
    power_mw = _ask(pynvml.nvmlDeviceGetPowerUsage, handle)
    return GpuSample(
        uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
        name=str(pynvml.nvmlDeviceGetName(handle)),
        busy_percent=None if rates is None else min(100.0, float(rates.gpu)),
        memory_used=None if memory is None else int(memory.used),
        memory_total=None if memory is None else int(memory.total),
        power_w=None if power_mw is None else power_mw / 1000.0,
        temperature_c=_ask(lambda device: pynvml.nvmlDeviceGetTemperature(device, pynvml.NVML_TEMPERATURE_GPU), handle),
        processes=_processes(handle),
    )


def _processes(handle: Any) -> tuple[GpuProcess, ...]:
    """Who holds memory there, for computing or drawing; one that does both is told once, with what it holds in all."""
    held: dict[int, int | None] = {}
    for call in (pynvml.nvmlDeviceGetComputeRunningProcesses, pynvml.nvmlDeviceGetGraphicsRunningProcesses):
        for process in _ask(call, handle) or ():
            memory = None if process.usedGpuMemory is None else int(process.usedGpuMemory)
            known = held.get(process.pid)
            held[process.pid] = memory if known is None else max(known, memory or 0)
    return tuple(GpuProcess(pid, memory) for pid, memory in sorted(held.items()))


def _ask(call: Callable[[Any], Any], handle: Any) -> Any:
    """The answer, or None where this device or driver does not offer it."""
    try:
        return call(handle)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_NoPermission):
        return None


if __name__ == "__main__":
    sys.exit(main())
