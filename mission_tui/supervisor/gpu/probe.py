"""The one process that loads NVML: looks at every GPU 20 times a second and prints a JSON line of them four times.

A driver call may never return, so this runs apart and can be killed and abandoned; it ends when its lines are read no
more. What the driver prints is discarded: the lines have a descriptor of their own. Its last line says why it ends. It
measures what it costs itself, and looks less often where it would take more than 2 % of a core.
"""

from __future__ import annotations

import os
import sys

from mission_tui.gpu_driver import can_be_loaded, why_nobody_answers

if __name__ == "__main__" and not can_be_loaded():
    # What reads NVML takes longer to load than all the rest of a probe that has nothing to read.
    import json

    note = why_nobody_answers() or "no GPU: NVML Shared Library Not Found"
    os.write(sys.stdout.fileno(), json.dumps({"note": note}).encode() + b"\n")
    sys.exit()

import time
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pynvml

from mission_tui.fleet.strip import CELL_S, Cell, merged
from mission_tui.supervisor.gpu import nvml
from mission_tui.supervisor.gpu.line import NO_INSTANCES, GpuSample, ProbeLine

FASTEST_HZ, SLOWEST_HZ = 20.0, 1.0
MOST_OF_A_CORE = 0.02
FACTS_EVERY_S = 1.0
"""Memory, power, temperature, clocks and who is there change slowly, and asking for them costs more."""
TICK_S = 1e-3
LOST = " (lost)"
SILENT = " (does not answer)"


def main() -> int:
    """Probe until the reader is gone; 0 when NVML is absent, the reader left, or the last line says what went wrong."""
    out = _own_descriptor()
    try:
        try:
            nvml.connect()
        except pynvml.NVMLError as error:
            known = why_nobody_answers() if isinstance(error, nvml.ABSENT) else ""
            return _say(out, ProbeLine(note=known or f"no GPU: {nvml.reason_of(error)}{_remedy(error)}"))
        for line in _lines():
            _say(out, line)
            if not line.gpus:
                break
    except BrokenPipeError:
        pass
    except BaseException as error:  # noqa: BLE001 - the edge of the process: whatever it is becomes the last line
        why = "no memory was left" if isinstance(error, MemoryError) else nvml.reason_of(error)
        return _say(out, ProbeLine(note=f"{why}{_remedy(error)}", failed=True))
    return 0


def _own_descriptor() -> int:
    """A descriptor of our own for the lines: what a library prints on stdout is none of them."""
    out = os.dup(sys.stdout.fileno())
    nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nothing, 1)
    os.close(nothing)
    return out


class GpuIndex(NamedTuple):
    """Where a GPU is: its index by the driver, and of an instance of it the number there."""

    at: int
    number: int | None = None


class SampleInterval:
    """How long to sleep between looks, so that all of it costs no more than its share of a core.

    `spent_s` are processor seconds of this process so far, `now` seconds of a clock that does not jump.
    """

    def __init__(self, now: float, spent_s: float) -> None:
        self._begun, self._spent_s, self._looks = now, spent_s, 0
        self.period_s = 1.0 / FASTEST_HZ

    def sampled(self, now: float, spent_s: float) -> None:
        """Another look is done; once a second the period follows from what the last ones cost."""
        self._looks += 1
        if now - self._begun < 1.0:
            return
        cost_s = (spent_s - self._spent_s) / self._looks
        self.period_s = min(1.0 / SLOWEST_HZ, max(1.0 / FASTEST_HZ, cost_s / MOST_OF_A_CORE))
        self._begun, self._spent_s, self._looks = now, spent_s, 0


class _Gpu:
    """One GPU by its index, or its instance `number`: what was known of it of late, and its looks since the last line.

    An index may come to mean another GPU at any time, so its UUID is asked for at each look.
    """

    def __init__(self, place: GpuIndex, before: GpuSample | None) -> None:
        self.place = place
        self._looks: list[Cell] = []
        self._failed: dict[str, str] = {}
        self._tells_busy = True
        self.sample = before or GpuSample(uuid=f"index {place.at}", name="GPU")
        self.error: Exception | None = None
        """Why nothing is known of it."""
        self._learn()

    def poll(self, now: float, since_s: float) -> None:
        """See how busy it is, `since_s` after the last look. Of an instance no driver tells."""
        if self.place.number is not None or self.error is not None:
            return
        self._failed.clear()
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(self.place.at)
            if nvml.uuid_of(handle, self._failed, self.sample.uuid) != self.sample.uuid:
                self._looks = []
                self._learn()
            percent = nvml.busy_percent(handle, self._failed)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - one GPU's trouble is no other's
            self._fail(error)
            return
        self._tells_busy = percent is not None or bool(self._failed)
        if percent is not None:
            self._looks.append(Cell(now, percent, percent, percent, since_s))

    def report(self, t: float) -> GpuSample:
        """What is known, with one cell at `t` for all looks so far."""
        looks, self._looks = self._looks, []
        failed = {f"{what}: {why}" for what, why in self._failed.items()}
        unknown = tuple(sorted({*self.sample.unknown, *failed}))
        return msgspec.structs.replace(self.sample, busy=merged(t, looks), unknown=unknown, tells_busy=self._tells_busy)

    def _learn(self) -> None:
        try:
            self.sample = _facts_at(self.place, self.sample)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - one GPU's trouble is no other's
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """One that fell off the bus or answers nothing stays listed as what it was, so that the others go on."""
        lost = isinstance(error, pynvml.NVMLError_GpuIsLost)
        name = self.sample.name.removesuffix(LOST).removesuffix(SILENT)
        why = () if lost else (f"everything: {nvml.reason_of(error)}",)
        self.sample = GpuSample(uuid=self.sample.uuid, name=f"{name}{LOST if lost else SILENT}", unknown=why)
        self._looks, self._failed, self.error = [], {}, error


def _lines() -> Iterator[ProbeLine]:
    """A line whenever a cell is over; one without GPUs is the last."""
    pace, gpus = SampleInterval(time.monotonic(), time.process_time()), list[_Gpu]()
    before = time.monotonic()
    facts_due, due, cell = 0.0, before, before // CELL_S
    while True:
        now = time.monotonic()
        if gpus and now // CELL_S > cell:
            yield ProbeLine(gpus=tuple(gpu.report(cell * CELL_S) for gpu in gpus), rate_hz=round(1 / pace.period_s, 1))
        cell = now // CELL_S
        if now >= facts_due:
            facts_due = now + FACTS_EVERY_S
            gpus = _found(gpus)
            if not gpus:
                yield ProbeLine(note="no GPU: NVML lists none")
                return
        for gpu in gpus:
            gpu.poll(now, min(max(now - before, TICK_S), 1.0 / SLOWEST_HZ))
        pace.sampled(time.monotonic(), time.process_time())
        before, due = now, max(due + pace.period_s, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def _found(before: list[_Gpu]) -> list[_Gpu]:
    """The GPUs that there are now, by index; one that is lost is taken for what stood there before.

    Raises what all of them fail with, where it is a matter of the driver and not of a GPU.
    """
    stood = {gpu.place: _plain(gpu.sample) for gpu in before}
    try:
        places = [place for index in range(nvml.count_gpus()) for place in _places(index)]
    except pynvml.NVMLError as error:
        if not before or nvml.same_for_all(error):
            raise
        places = [gpu.place for gpu in before]
    gpus = [_Gpu(place, stood.get(place)) for place in places]
    common = [gpu.error for gpu in gpus if gpu.error is not None and nvml.same_for_all(gpu.error)]
    if common and len(common) == len(gpus):
        raise common[0]
    return gpus


def _plain(sample: GpuSample) -> GpuSample:
    """`sample` by the name that it had before it fell silent or was lost."""
    return msgspec.structs.replace(sample, name=sample.name.removesuffix(SILENT).removesuffix(LOST), unknown=())


def _places(index: int) -> list[GpuIndex]:
    """The instances of a GPU in MIG mode that has any, else the GPU."""
    try:
        numbers = nvml.instances_of(pynvml.nvmlDeviceGetHandleByIndex(index))
    except pynvml.NVMLError:
        numbers = None
    return [GpuIndex(index, number) for number in numbers] if numbers else [GpuIndex(index)]


def _facts_at(place: GpuIndex, before: GpuSample) -> GpuSample:
    """What is there now; `before` where an instance has just been taken away."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(place.at)
    if place.number is not None:
        instance = nvml.instance_of(handle, place.number)
        if instance is None:
            return before
        return nvml.facts_of(instance, before, nvml.uuid_of(handle, {}, before.parent))
    facts = nvml.facts_of(handle, msgspec.structs.replace(before, name=before.name.removesuffix(NO_INSTANCES)))
    empty = nvml.instances_of(handle) == []
    return msgspec.structs.replace(facts, name=f"{facts.name}{NO_INSTANCES}") if empty else facts


def _say(out: int, line: ProbeLine) -> int:
    rest = msgspec.json.encode(line) + b"\n"
    while rest:
        rest = rest[os.write(out, rest) :]
    return 0


def _remedy(error: BaseException) -> str:
    """What helps against `error`: after an upgrade under a running driver only a restart does."""
    mismatch = isinstance(error, pynvml.NVMLError_LibRmVersionMismatch)
    return "; restart the machine to use its new driver" if mismatch else ""


if __name__ == "__main__":
    sys.exit(main())
