"""The one process that loads NVML: looks at every GPU 20 times a second and prints a JSON line of them four times.

A driver call may never return, so this runs apart and can be killed and abandoned; it ends when nobody reads its lines.
It measures what it costs itself, and looks less often where it would take more than 2 % of a core.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import msgspec
import pynvml

from mission_tui.fleet.cells import CELL_S, Cell, merged
from mission_tui.supervisor.gpu.line import GpuSample, ProbeLine
from mission_tui.supervisor.gpu.nvml import busy_percent, facts_of

__all__ = ["Pace", "main"]

FASTEST_HZ, SLOWEST_HZ = 20.0, 1.0
MOST_OF_A_CORE = 0.02
FACTS_EVERY_S = 1.0
"""Memory, power, temperature, clocks and who is there change slowly, and asking for them costs more."""
TICK_S = 1e-3
LOST = " (lost)"


def main() -> int:
    """Probe until the reader is gone; 0 when NVML is absent or the reader left."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return _say(ProbeLine(note=f"no GPU: {error}{_remedy(error)}"))
    try:
        for line in _lines():
            _say(line)
            if not line.gpus:
                break
    except pynvml.NVMLError as error:
        return _say(ProbeLine(note=f"GPU meters stopped: {error}{_remedy(error)}"))
    except BrokenPipeError:
        pass
    return 0


class Pace:
    """How long to sleep between looks, so that all of it costs no more than its share of a core.

    `spent_s` are processor seconds of this process so far, `now` seconds of a clock that does not jump.
    """

    def __init__(self, now: float, spent_s: float) -> None:
        self._begun, self._spent_s, self._looks = now, spent_s, 0
        self.period_s = 1.0 / FASTEST_HZ

    def looked(self, now: float, spent_s: float) -> None:
        """Another look is done; once a second the period follows from what the last ones cost."""
        self._looks += 1
        if now - self._begun < 1.0:
            return
        cost_s = (spent_s - self._spent_s) / self._looks
        self.period_s = min(1.0 / SLOWEST_HZ, max(1.0 / FASTEST_HZ, cost_s / MOST_OF_A_CORE))
        self._begun, self._spent_s, self._looks = now, spent_s, 0


class _Gpu:
    """One GPU by its index: what was known of it within the last second, and its looks since the last line.

    An index may come to mean another GPU at any time, so its UUID is asked for at each look.
    """

    def __init__(self, index: int, before: GpuSample | None) -> None:
        self._index = index
        self._looks: list[Cell] = []
        self.sample = before or GpuSample(uuid=f"index {index}", name="GPU")
        try:
            self.sample = facts_of(pynvml.nvmlDeviceGetHandleByIndex(index))
        except pynvml.NVMLError_GpuIsLost:
            self._lose()

    def look(self, now: float, since_s: float) -> None:
        """See how busy it is, `since_s` after the last look."""
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(self._index)
            if pynvml.nvmlDeviceGetUUID(handle) != self.sample.uuid:
                self.sample, self._looks = facts_of(handle), []
            percent = busy_percent(handle)
        except pynvml.NVMLError_GpuIsLost:
            self._lose()
            return
        if percent is not None:
            self._looks.append(Cell(now, percent, percent, percent, since_s))

    def said(self, t: float) -> GpuSample:
        """What is known, with one cell at `t` for all looks so far."""
        looks, self._looks = self._looks, []
        return msgspec.structs.replace(self.sample, busy=merged(t, looks))

    def _lose(self) -> None:
        """One that fell off the bus stays listed as what it was, so that the others go on."""
        self.sample = GpuSample(uuid=self.sample.uuid, name=f"{self.sample.name.removesuffix(LOST)}{LOST}")
        self._looks = []


def _lines() -> Iterator[ProbeLine]:
    """A line whenever a cell is over; one without GPUs is the last."""
    pace, gpus = Pace(time.monotonic(), time.process_time()), list[_Gpu]()
    before = time.monotonic()
    facts_due, due, cell = 0.0, before, before // CELL_S
    while True:
        now = time.monotonic()
        if gpus and now // CELL_S > cell:
            yield ProbeLine(gpus=tuple(gpu.said(cell * CELL_S) for gpu in gpus), rate_hz=round(1 / pace.period_s, 1))
        cell = now // CELL_S
        if now >= facts_due:
            facts_due = now + FACTS_EVERY_S
            gpus = _found([gpu.sample for gpu in gpus])
            if not gpus:
                yield ProbeLine(note="no GPU: NVML lists none")
                return
        for gpu in gpus:
            gpu.look(now, min(max(now - before, TICK_S), 1.0 / SLOWEST_HZ))
        pace.looked(time.monotonic(), time.process_time())
        before, due = now, max(due + pace.period_s, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def _found(before: list[GpuSample]) -> list[_Gpu]:
    """The GPUs that there are now, by index; one that is lost is taken for what stood there before."""
    count = pynvml.nvmlDeviceGetCount()
    return [_Gpu(index, before[index] if index < len(before) else None) for index in range(count)]


def _say(line: ProbeLine) -> int:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()
    return 0


def _remedy(error: Exception) -> str:
    """What helps against `error`: after an upgrade under a running driver only a restart does."""
    mismatch = isinstance(error, pynvml.NVMLError_LibRmVersionMismatch)
    return "; restart the machine to use its new driver" if mismatch else ""


if __name__ == "__main__":
    sys.exit(main())
