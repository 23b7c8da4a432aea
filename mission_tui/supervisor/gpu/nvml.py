"""What NVML says of one GPU: its load, GPU memory, temperature, power, what throttles it, and which processes use it.

Every answer is checked: a device or driver may not offer it, or say what cannot be true.

A question that fails leaves its answer unknown for that GPU alone, and is kept in `failed`; only a GPU that is lost
is an error. Older drivers are asked by the older names of the same questions.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pynvml

from mission_tui.gpu_driver import WSL_LIBRARY
from mission_tui.supervisor.gpu.line import GpuProcess, GpuSample


def _known(*names: str) -> tuple[type[Exception], ...]:
    return tuple(error for name in names if (error := getattr(pynvml, name, None)) is not None)


MOST_W, MOST_C, MOST_MHZ, MOST_PERCENT, MOST_BYTES = 10_000.0, 150.0, 20_000, 100, 1 << 50
MPS_SERVER = "nvidia-cuda-mps"
MOST_GPUS = 256
"""No machine has more; a driver that says so counts wrong."""
_NOT_THERE = (AttributeError, pynvml.NVMLError_FunctionNotFound, *_known("NVMLLibraryMismatchError"))
"""This driver, or this release of `pynvml`, does not know the question by that name."""
_NOT_OFFERED = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_NoPermission,
    pynvml.NVMLError_InvalidArgument,
)
"""The last is what some drivers say to a question about an instance that only whole GPUs can be asked."""
_OF_THE_DRIVER = _known(
    "NVMLError_LibRmVersionMismatch",
    "NVMLError_Uninitialized",
    "NVMLError_DriverNotLoaded",
    "NVMLError_LibraryNotFound",
)
_LONGEST_REASON = 200
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
"""Reasons that a person can do something about; idling and clocks that were set on purpose are not among them."""
COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}

Failed = dict[str, str]
"""What could not be asked, and why: by the word for it, such as `power`."""


ABSENT = _known("NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded")
"""There is no driver, or no library to ask it with."""


class ImpossibleError(Exception):
    """The driver said what cannot be true."""


def connect() -> None:
    """Begin with NVML, by the older name where the driver has only that. Raises `pynvml.NVMLError`."""
    try:
        _init()
    except _known("NVMLError_LibraryNotFound"):
        if not WSL_LIBRARY.is_file():
            raise
        pynvml.nvmlLib = ctypes.CDLL(str(WSL_LIBRARY))
        _init()


def _init() -> None:
    try:
        pynvml.nvmlInit()
    except _NOT_THERE:
        pynvml._nvmlCheckReturn(pynvml._nvmlGetFunctionPointer("nvmlInit_v2")())


def count_gpus() -> int:
    """How many there are. Raises `pynvml.NVMLError`, and `ImpossibleError` where the driver counts more than can be."""
    count = int(pynvml.nvmlDeviceGetCount())
    if count > MOST_GPUS:
        raise ImpossibleError(f"NVML counts {count:,} GPUs")
    return count


def reason_of(error: BaseException) -> str:
    """What `error` says; a driver may fail even at that."""
    try:
        words = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - the words come from the driver, which may say anything but text
        words = ""
    words = "".join(each for each in words if each.isprintable())[:_LONGEST_REASON]
    if isinstance(error, ImpossibleError):
        return words
    if isinstance(error, pynvml.NVMLError):
        return words or f"NVML error {getattr(error, 'value', '')}".rstrip()
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def same_for_all(error: BaseException) -> bool:
    """Whether `error` is one of the driver, not of one GPU."""
    return isinstance(error, _OF_THE_DRIVER)


def busy_percent(handle: Any, failed: Failed) -> float | None:
    """Percent of the driver's last interval in which a kernel ran, 0..100."""
    rates = _ask(failed, "busy", handle, "nvmlDeviceGetUtilizationRates")
    if rates is not None and rates.gpu > MOST_PERCENT:
        failed["busy"] = f"NVML says {rates.gpu:,} %"
        return None
    return None if rates is None else float(rates.gpu)


def uuid_of(handle: Any, failed: Failed, before: str) -> str:
    """The UUID; `before` where it cannot be told."""
    return text_of(_ask(failed, "uuid", handle, "nvmlDeviceGetUUID")) or before


def instances_of(handle: Any) -> list[int] | None:
    """The numbers of the instances of a GPU in MIG mode, which may be none; None where it is whole."""
    failed: Failed = {}
    mode = _ask(failed, "MIG mode", handle, "nvmlDeviceGetMigMode")
    if not mode or not mode[0]:
        return None
    most = _ask(failed, "MIG instances", handle, "nvmlDeviceGetMaxMigDeviceCount") or 0
    return [number for number in range(most) if instance_of(handle, number, failed) is not None]


def instance_of(handle: Any, number: int, failed: Failed | None = None) -> Any:
    """The handle of an instance; None where there is none of this number."""
    try:
        return pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
    except (pynvml.NVMLError_NotFound, *_NOT_THERE, *_NOT_OFFERED):
        return None
    except pynvml.NVMLError_GpuIsLost:
        raise
    except Exception as error:  # noqa: BLE001 - see `_ask`
        if failed is not None:
            failed["MIG instances"] = reason_of(error)
        return None


def facts_of(handle: Any, before: GpuSample, parent: str = "") -> GpuSample:
    """All but how busy it is; of an instance `parent` is the UUID of its GPU. `before` says what it was called."""
    failed: Failed = {}
    memory = _ask_any(failed, "memory", [partial(_memory, handle)])
    total = memory.total if memory is not None and 0 < memory.total <= MOST_BYTES else None
    power_mw = _ask(failed, "power", handle, "nvmlDeviceGetPowerUsage")
    celsius = _ask(failed, "temperature", handle, "nvmlDeviceGetTemperature", _CORE)
    clock = _ask(failed, "clock", handle, "nvmlDeviceGetClockInfo", _STREAMING)
    mode = _ask(failed, "compute mode", handle, "nvmlDeviceGetComputeMode")
    uuid = uuid_of(handle, failed, before.uuid)
    return GpuSample(
        uuid=uuid,
        name=text_of(_ask(failed, "name", handle, "nvmlDeviceGetName")) or before.name,
        memory_used=None if total is None or memory is None or memory.used > total else memory.used,
        memory_total=total,
        power_w=_within(None if power_mw is None else power_mw / 1000.0, MOST_W),
        temperature_c=_within(celsius, MOST_C),
        clock_mhz=clock if clock is not None and 0 <= clock <= MOST_MHZ else None,
        slowed=_slowed(handle, failed),
        processes=_processes(handle, failed),
        parent=parent,
        compute_mode=COMPUTE_MODES.get(mode),
        unknown=tuple(f"{what}: {why}" for what, why in sorted(failed.items())),
    )


class _Memory(NamedTuple):
    """Bytes that programs may have, and have."""

    total: int
    used: int


def _memory(handle: Any) -> _Memory:
    """Without what driver and firmware keep to themselves, half a gigabyte of an H100: no program can have that, and
    no program holds it. `nvidia-smi` and torch leave it out too; drivers before 510 do not tell it apart.
    """
    try:
        told = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        return _Memory(int(told.total) - int(told.reserved), int(told.used))
    except (AttributeError, TypeError):
        pass  # an older module
    except pynvml.NVMLError as error:
        if isinstance(error, pynvml.NVMLError_GpuIsLost):
            raise
    told = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return _Memory(int(told.total), int(told.used))


def _within(value: float | None, most: float) -> float | None:
    """`value` where it can be true: drivers have said four million degrees."""
    return value if value is not None and 0 <= value <= most else None


def text_of(said: Any) -> str:
    """Text of a driver, which need not be UTF-8."""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else "" if said is None else str(said)


def _slowed(handle: Any, failed: Failed) -> tuple[str, ...]:
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    reasons = _ask_any(failed, "slowdown", [_question(name, handle) for name in names]) or 0
    return tuple(word for bit, word in SLOWED_BY.items() if reasons & bit)


def _processes(handle: Any, failed: Failed) -> tuple[GpuProcess, ...]:
    """The processes that hold memory there, to compute or to draw; one that does both comes once, with all it holds."""
    held: dict[int, int | None] = {}
    for name in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
        # Since 510, since 450, before; and last a `pynvml` that no longer gives its functions out.
        ways: list[Callable[[], Any]] = [
            partial(_counted, f"{name}_v3", _Process, handle),
            partial(_counted, f"{name}_v2", _Process, handle),
            partial(_counted, name, _OldProcess, handle),
            _question(name, handle),
        ]
        for process in _ask_any(failed, "processes", ways) or ():
            memory = process.usedGpuMemory
            if memory is not None and memory >= _MORE_THAN_ANY:
                memory = None
            known = held.get(process.pid)
            held[process.pid] = memory if known is None else max(known, memory or 0)
    busy = _busy_by_process(handle, failed) if held else None
    # Under MPS all kernels are its server's, so a process without a share of its own is not idle but unknown.
    without = None if busy is None or any(_serves_mps(pid) for pid in held.keys() | busy.keys()) else 0.0
    return tuple(
        GpuProcess(pid, memory, None if busy is None else busy.get(pid, without))
        for pid, memory in sorted(held.items())
    )


def _serves_mps(pid: int) -> bool:
    """Whether it is the server of NVIDIA's Multi-Process Service, by its name as far as Linux keeps one."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").startswith(MPS_SERVER)
    except OSError:
        return False


class _OldProcess(ctypes.Structure):
    """`nvmlProcessInfo_v1_t`, of drivers before 450."""

    _fields_ = (("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong))


class _Process(ctypes.Structure):
    """`nvmlProcessInfo_v2_t`; the third version differs in what is counted alone."""

    _fields_ = (*_OldProcess._fields_, ("gpuInstanceId", ctypes.c_uint), ("computeInstanceId", ctypes.c_uint))


class _Sample(ctypes.Structure):
    """`nvmlProcessUtilizationSample_t`."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("timeStamp", ctypes.c_ulonglong),
        *((name, ctypes.c_uint) for name in ("smUtil", "memUtil", "encUtil", "decUtil")),
    )


_MORE_THAN_ANY = 2**63
"""From here on it means "not available"."""
MOST_PROCESSES = 1 << 16
"""No GPU has more: room for as many as a driver says may be more than the machine has."""


def _counted(
    name: str, kind: type[ctypes.Structure], handle: Any, since_us: int | None = None
) -> Sequence[ctypes.Structure]:
    """All that the function `name` lists; `since_us` is for the one that lists samples, and turns its arguments round.

    Raises `pynvml.NVMLError`, and `ImpossibleError` where the driver counts more than can be.
    """
    function = pynvml._nvmlGetFunctionPointer(name)
    count = ctypes.c_uint(0)

    def call(room: Any) -> int:
        if since_us is None:
            return int(function(handle, ctypes.byref(count), room))
        return int(function(handle, room, ctypes.byref(count), ctypes.c_ulonglong(since_us)))

    code = call(None)
    if code != pynvml.NVML_ERROR_INSUFFICIENT_SIZE:
        pynvml._nvmlCheckReturn(code)
        return ()
    for _ in range(2):  # one more may have come since they were counted
        if count.value > MOST_PROCESSES:
            raise ImpossibleError(f"NVML counts {count.value:,} processes on it")
        count.value = count.value * 2 + 5
        found = (kind * count.value)()
        code = call(found)
        if code != pynvml.NVML_ERROR_INSUFFICIENT_SIZE:
            break
    pynvml._nvmlCheckReturn(code)
    return found[: min(count.value, len(found))]


def _busy_by_process(handle: Any, failed: Failed) -> dict[int, float] | None:
    """Percent of the last seconds by process, of those that used it; None where the driver does not tell.

    Drivers have said percents of many thousands for processes that had just begun.
    """
    since_us = int((time.time() - RECENT_S) * 1e6)

    def samples_of() -> Sequence[Any]:
        try:
            return _counted("nvmlDeviceGetProcessUtilization", _Sample, handle, since_us)
        except pynvml.NVMLError_NotFound:
            return ()

    samples = _ask_any(failed, "share of each process", [samples_of])
    if samples is None:
        return None
    percents: dict[int, list[int]] = {}
    for sample in samples:
        if sample.smUtil <= MOST_PERCENT:
            percents.setdefault(sample.pid, []).append(sample.smUtil)
    return {pid: statistics.fmean(each) for pid, each in percents.items()}


def _question(name: str, handle: Any, *arguments: int) -> Callable[[], Any]:
    """The call of `name`, whose text stays bytes: `pynvml` would raise for what is not UTF-8."""

    def ask() -> Any:
        function = getattr(pynvml, name)
        if name in _TEXTS:
            function = getattr(function, "__wrapped__", function)
        return function(handle, *arguments)

    return ask


_TEXTS = frozenset({"nvmlDeviceGetUUID", "nvmlDeviceGetName"})


def _ask(failed: Failed, what: str, handle: Any, name: str, *arguments: int) -> Any:
    return _ask_any(failed, what, [_question(name, handle, *arguments)])


def _ask_any(failed: Failed, what: str, ways: Sequence[Callable[[], Any]]) -> Any:
    """The answer to the first of `ways` that the driver knows.

    None where this device, driver or release of `pynvml` does not offer any, and where it fails: `failed` then says
    why, and nothing else of this GPU or of another one is lost with it. Raises `pynvml.NVMLError_GpuIsLost`.
    """
    for way in ways:
        try:
            return way()
        except _NOT_THERE:
            continue
        except _NOT_OFFERED:
            return None
        except (pynvml.NVMLError_GpuIsLost, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - one of thirty codes, or text and sizes that no driver should give
            failed[what] = reason_of(error)
            return None
    return None
