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
MOST_W, MOST_C = 10_000.0, 150.0


def main() -> int:
    """Probe until the reader is gone; 0 when NVML is absent or the reader left."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return _say(ProbeLine(note=f"no GPU: {error}{_remedy(error)}"))
    known: dict[int, GpuSample] = {}
    try:
        while True:
            started = time.monotonic()
            count = pynvml.nvmlDeviceGetCount()
            if not count:
                return _say(ProbeLine(note="no GPU: NVML lists none"))
            _say(ProbeLine(gpus=tuple(_look_at(index, known) for index in range(count))))
            time.sleep(max(0.0, PERIOD_S - (time.monotonic() - started)))
    except pynvml.NVMLError as error:
        return _say(ProbeLine(note=f"GPU meters stopped: {error}{_remedy(error)}"))
    except BrokenPipeError:
        return 0


def _say(line: ProbeLine) -> int:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()
    return 0


def _remedy(error: Exception) -> str:
    """What helps against `error`: after an upgrade under a running driver only a restart does."""
    mismatch = isinstance(error, pynvml.NVMLError_LibRmVersionMismatch)
    return "; restart the machine to use its new driver" if mismatch else ""


def _look_at(index: int, known: dict[int, GpuSample]) -> GpuSample:
    """The GPU now; one that fell off the bus stays listed as what it was, so that the others go on."""
    try:
        known[index] = _sample(pynvml.nvmlDeviceGetHandleByIndex(index))
    except pynvml.NVMLError_GpuIsLost:
        before = known.get(index, GpuSample(uuid=f"index {index}", name="GPU"))
        return GpuSample(uuid=before.uuid, name=f"{before.name} (lost)")
    return known[index]


def _within(value: float | None, most: float) -> float | None:
    """`value` where it can be true: drivers have said four million degrees."""
    return value if value is not None and 0 <= value <= most else None


def _sample(handle: Any) -> GpuSample:
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    rates = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
    power_mw = _ask(pynvml.nvmlDeviceGetPowerUsage, handle)
    celsius = _ask(lambda device: pynvml.nvmlDeviceGetTemperature(device, pynvml.NVML_TEMPERATURE_GPU), handle)
    return GpuSample(
        uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
        name=str(pynvml.nvmlDeviceGetName(handle)),
        busy_percent=None if rates is None else min(100.0, float(rates.gpu)),
        memory_used=None if memory is None or memory.used > memory.total else int(memory.used),
        memory_total=None if memory is None else int(memory.total),
        power_w=_within(None if power_mw is None else power_mw / 1000.0, MOST_W),
        temperature_c=_within(celsius, MOST_C),
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
