"""The GPU probe and its watcher, with a stand-in for NVML that is put first on the probe's module path."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mission_tui.gpu_driver import can_be_loaded
from mission_tui.supervisor.gpu import watch as gpu
from mission_tui.supervisor.gpu.line import ProbeLine
from mission_tui.supervisor.gpu.watch import GpuWatch
from tests.nvml import stand_in_module
from tests.supervisor.gpu_watching import meets

NVML = """
import time
class NVMLError(Exception): pass
class NVMLError_NotSupported(NVMLError): pass
class NVMLError_FunctionNotFound(NVMLError): pass
class NVMLError_NoPermission(NVMLError): pass
class NVMLError_InvalidArgument(NVMLError): pass
class NVMLError_NotFound(NVMLError): pass
class NVMLError_GpuIsLost(NVMLError): pass
class NVMLError_LibRmVersionMismatch(NVMLError): pass
class Memory: used, total = 5, 8
class Rates: gpu = 37
def nvmlInit(): {init}
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(i): return i
def nvmlDeviceGetUUID(i): return f"GPU-{{i}}"
def nvmlDeviceGetName(i): return "Stand-in"
def nvmlDeviceGetMemoryInfo(i): return Memory
def nvmlDeviceGetUtilizationRates(i): return Rates
def nvmlDeviceGetPowerUsage(i): raise NVMLError_NotSupported
class Process:
    def __init__(self, pid, usedGpuMemory): self.pid, self.usedGpuMemory = pid, usedGpuMemory
def nvmlDeviceGetComputeRunningProcesses(i): return [Process(7, 100), Process(8, None)]
def nvmlDeviceGetGraphicsRunningProcesses(i): return [Process(7, 300)] if i else []
def nvmlDeviceGetTemperature(i, kind): return 61
def nvmlDeviceGetClockInfo(i, kind): return 1980
def nvmlDeviceGetCurrentClocksEventReasons(i): return 4 | 1
def nvmlDeviceGetComputeMode(i): return 3
"""


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a stand-in NVML in place whose `nvmlInit` runs the given statement."""

    def install(init: str) -> None:
        for name, value in stand_in_module(tmp_path, NVML.format(init=init)).items():
            monkeypatch.setenv(name, value)

    return install


async def test_gpus_are_shown_by_uuid_with_what_is_unknown_as_none(
    nvml: Callable[[str], None], watch: GpuWatch
) -> None:
    """Busy percent, memory and temperature arrive; unsupported power is None; history grows."""
    nvml("pass")
    await meets(watch, lambda: len(watch.gpus) == 2 and len(watch.gpus[0].history) >= 2)
    first = watch.gpus[0]
    assert (first.uuid, first.util.now, first.util.max, first.memory_used) == ("GPU-0", 37.0, 37.0, 5)
    assert (first.power_w, first.temperature_c) == (None, 61)
    assert (first.clock_mhz, first.slowed) == (1980, ("power cap",))
    assert first.compute_mode == "exclusive process"
    assert watch.note == ""
    assert watch.held == {7: 400, 8: None}


KEPT_BY_THE_DRIVER = """
nvmlMemory_v2 = 33554472
class Apart: used, total, reserved = 3, 8, 2
def nvmlDeviceGetMemoryInfo(i, version=None): return Apart if version == nvmlMemory_v2 else Memory
"""


async def test_what_the_driver_keeps_to_itself_is_nobodys_memory(
    nvml: Callable[[str], None], watch: GpuWatch, tmp_path: Path
) -> None:
    """No program holds it, and none can have it: half a gigabyte of a large card would be looked for for ever."""
    nvml("pass")
    with (tmp_path / "pynvml.py").open("a", encoding="utf-8") as module:
        module.write(KEPT_BY_THE_DRIVER)
    await meets(watch, lambda: len(watch.gpus) == 2)
    assert [(gpu.memory_used, gpu.memory_total) for gpu in watch.gpus] == [(3, 6)] * 2


async def test_without_a_driver_the_reason_is_said_once(nvml: Callable[[str], None], watch: GpuWatch) -> None:
    """NVML is absent: a note, no GPUs, and the probe is not started again at once."""
    nvml("raise NVMLError('Driver Not Loaded')")
    await meets(watch, lambda: watch.note)
    assert watch.note == "no GPU: Driver Not Loaded"
    assert not watch.present()
    await meets(watch, lambda: watch._probe is None)
    watch.tick(wanted=True)
    assert watch._probe is None


def test_where_no_library_is_found_nothing_more_is_loaded() -> None:
    """Neither what reads NVML nor what writes lines of it, and the supervisor can read the line that is said."""
    if can_be_loaded():
        pytest.skip("this machine has the real library")
    argv = [sys.executable, "-P", "-X", "importtime", "-m", "mission_tui.supervisor.gpu.probe"]
    done = subprocess.run(argv, capture_output=True, timeout=30, check=True)
    assert msgspec.json.decode(done.stdout, type=ProbeLine).note.startswith("no GPU: ")
    assert b"mission_tui.gpu_driver" in done.stderr
    assert b"pynvml" not in done.stderr
    assert b"msgspec" not in done.stderr


async def test_a_probe_that_hangs_in_the_driver_is_given_up(
    nvml: Callable[[str], None], watch: GpuWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that never returns: the probe is killed, the note says stale, another is tried later."""
    monkeypatch.setattr(gpu, "START_S", 0.5)
    nvml("time.sleep(600)")
    await meets(watch, lambda: "stale" in watch.note)
    assert watch.gpus == ()
    await meets(watch, lambda: not watch._abandoned)


async def test_unwanted_means_no_process(nvml: Callable[[str], None], watch: GpuWatch) -> None:
    """When nobody watches and nothing runs, the probe is ended."""
    nvml("pass")
    await meets(watch, lambda: watch.gpus)
    watch.tick(wanted=False)
    assert watch._probe is None
    assert watch.gpus == ()


async def test_who_needs_a_word_about_the_gpus_waits_for_one_each_time(
    nvml: Callable[[str], None], watch: GpuWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after the probe of before was ended, and though nobody else wants one: it is not ended while it is waited
    for. One that does not answer is waited for no longer than was said.
    """

    async def nobody_looks() -> None:
        while True:
            watch.tick(wanted=False)
            await asyncio.sleep(0.01)

    monkeypatch.setattr(gpu, "may_be_here", lambda: True)
    nvml("pass")
    clock = asyncio.create_task(nobody_looks())
    try:
        for _ in range(2):
            await watch.first_word(30.0)
            assert [gpu.uuid for gpu in watch.gpus] == ["GPU-0", "GPU-1"]
            watch.tick(wanted=False)
            assert not watch.gpus
            assert watch.present()
        nvml("time.sleep(600)")
        await watch.first_word(0.2)
        assert watch.gpus == ()
    finally:
        clock.cancel()


async def test_a_probe_that_fails_is_not_waited_for(
    nvml: Callable[[str], None], watch: GpuWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why it ended is the word that was waited for."""
    monkeypatch.setattr(gpu, "may_be_here", lambda: True)
    nvml("import os; os._exit(3)")
    begun = time.monotonic()
    await watch.first_word(60.0)
    assert time.monotonic() - begun < 30.0
    assert "exit code 3" in watch.note
