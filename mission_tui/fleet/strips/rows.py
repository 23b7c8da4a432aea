"""A strip as rows of one width: per stretch of time one for each GPU, for the host, and for each run with a phase.

Whole multiples of the width since the epoch, so that rows of strips asked one after the other continue each other. A
busy cell counts in the row in which its middle lies, so a peak is in one row and never lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor
from typing import Literal

from msgspec import Struct

from mission_tui.fleet.events.outcome import Phase
from mission_tui.fleet.strips.cells import Cell, merged
from mission_tui.fleet.strips.strip import Lane, Strip

__all__ = ["StripRow", "strip_rows"]

EDGE_S = 1e-6


class StripRow(Struct, frozen=True, kw_only=True):
    """What a GPU, the host or a run did from unix time `t` on; None where that is not known or not its own.

    `busy` is least, mean and most in percent; `phases` percent of the row's time by phase.
    """

    t: float
    what: Literal["gpu", "host", "run"]
    id: str = ""
    name: str = ""
    busy: Cell | None = None
    power_w: float | None = None
    cpu_percent: float | None = None
    phases: dict[Phase, float] | None = None


def strip_rows(strip: Strip, width: float) -> Iterator[StripRow]:
    """The rows that lie wholly in the strip, oldest first; nothing is a row without anything known."""
    first, last = ceil((strip.since - EDGE_S) / width), floor((strip.until + EDGE_S) / width)
    count = last - first
    if count <= 0:
        return
    busy = [(gpu, _binned(gpu.busy, width, first, count), _mean(gpu.power, width, first, count)) for gpu in strip.gpus]
    cpu = _mean(strip.cpu, width, first, count)
    lanes = [(lane, _phases(lane, width, first, count)) for lane in strip.lanes]
    for place in range(count):
        t = (first + place) * width
        for gpu, cells, watts in busy:
            if cells[place] is not None or watts[place] is not None:
                yield StripRow(t=t, what="gpu", id=gpu.uuid, name=gpu.name, busy=cells[place], power_w=watts[place])
        if cpu[place] is not None:
            yield StripRow(t=t, what="host", cpu_percent=cpu[place])
        for lane, phases in lanes:
            if phases[place]:
                yield StripRow(t=t, what="run", id=lane.run, name=lane.name, phases=phases[place])


def _binned(cells: Sequence[Cell], width: float, first: int, count: int) -> list[Cell | None]:
    bins = [list[Cell]() for _ in range(count)]
    for cell in cells:
        place = floor((cell.t + cell.seconds / 2) / width) - first
        if 0 <= place < count:
            bins[place].append(cell)
    return [merged((first + place) * width, found) for place, found in enumerate(bins)]


def _mean(cells: Sequence[Cell], width: float, first: int, count: int) -> list[float | None]:
    """Of a value that changes slowly: by how much of each row the cells cover."""
    sums, seconds = [0.0] * count, [0.0] * count
    for cell in cells:
        for place, part in _parts(cell.t, cell.t + cell.seconds, width, first, count):
            sums[place] += part * cell.mean
            seconds[place] += part
    return [total / covered if covered > EDGE_S else None for total, covered in zip(sums, seconds, strict=True)]


def _phases(lane: Lane, width: float, first: int, count: int) -> list[dict[Phase, float]]:
    found = [dict[Phase, float]() for _ in range(count)]
    for span in lane.spans:
        for place, part in _parts(span.since, span.until, width, first, count):
            found[place][span.phase] = found[place].get(span.phase, 0.0) + 100.0 * part / width
    return found


def _parts(since: float, until: float, width: float, first: int, count: int) -> Iterator[tuple[int, float]]:
    """The rows that a stretch touches, and for how many seconds."""
    for place in range(max(0, floor(since / width) - first), min(count, ceil(until / width) - first)):
        begin = (first + place) * width
        part = min(until, begin + width) - max(since, begin)
        if part > 0.0:
            yield place, part
