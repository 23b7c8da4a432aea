"""What the instruments showed, from the meter files of supervisors, for clients that only read: now, or at a moment of
the last day.

The live strip is some seconds behind. Of a moment that no kept cell covers nothing is known: gaps are not bridged.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from msgspec import structs

from mission_tui.fleet.phases import PhaseHistory
from mission_tui.fleet.store import Store
from mission_tui.fleet.strip import METER_LEVELS, WINDOW_S, Cell, CellHistory, Strip, merged
from mission_tui.fleet.views.snapshot import GpuMeters, HostMeters, Utilisation
from mission_tui.ipc.requests import GetStrip
from mission_tui.records.meter_history import TIERS, MeterFiles, RestoredHistories, behind, restore_histories
from mission_tui.records.runs.layout import instruments_dir
from mission_tui.supervisor.readonly.history import Tracks, strip_of

FRESH_S = 5.0

STALE_S = 3.0
"""From the end of the last cell on; a look now and then is late on a busy machine."""
MINUTE_S = 60
NO_GPU = "no GPU meters kept"
NO_METERS = "no meters of this moment: they are kept for a day, while a supervisor runs"


class ReadonlyMeters:
    """Reads the files when asked, and not again for a few seconds."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tracks: Tracks | None = None
        self._read_at = float("-inf")

    def tracks(self) -> Tracks:
        """What the files hold of the last day. Damage and what may not be read are passed over."""
        if self._tracks is None or time.monotonic() - self._read_at > FRESH_S:
            self._tracks = tracks_of(*read_meters(self._root, time.time()))
            self._read_at = time.monotonic()
        return self._tracks


def read_meters(root: Path, now: float) -> tuple[RestoredHistories, float]:
    """What the files of the runs root hold at unix time `now`, and how many seconds its clock is behind that.

    Damage is passed over.
    """
    files = MeterFiles(instruments_dir(root))
    read = [files.read(tier, now)[0] for tier in TIERS]
    ahead = behind(read)
    return restore_histories(read, now, ahead), ahead


def tracks_of(found: RestoredHistories, ahead: float) -> Tracks:
    """What a strip is made of, in what was read; its clock is `ahead` seconds behind unix time."""
    lanes = {run: PhaseHistory() for run in found.spans}
    for run, spans in found.spans.items():
        lanes[run].begin_with(spans)
    busy, power = ({gpu: each for (what, gpu), each in found.cells.items() if what == it} for it in ("busy", "power"))
    return Tracks(found.names, busy, power, found.cells.get(("cpu", "")), lanes, tuple(found.names), ahead=ahead)


class PastMeters:
    """Meters and strip of the runs root at any moment of which its files tell."""

    def __init__(self, root: Path) -> None:
        now = time.time()
        found, self._ahead = read_meters(root, now)
        self._kept_from = now - METER_LEVELS[-1][1]
        self._tracks = tracks_of(found, self._ahead)
        self._cells = found.cells
        self._host = HostMeters(socket.gethostname(), len(os.sched_getaffinity(0)), gpu_note=NO_GPU)

    def meters_at(self, moment: float) -> tuple[HostMeters, tuple[GpuMeters, ...]] | None:
        """The meters at unix time `moment`; None where nothing was kept of it."""
        moment -= self._ahead
        cpu = _last_minute(self._tracks.cpu, moment)
        found = (self._gpu(uuid, name, moment) for uuid, name in self._tracks.names.items())
        gpus = tuple(gpu for gpu in found if gpu is not None)
        newest = _at(cpu, moment)
        ram, ram_total = self._meter("ram", "", moment)
        if newest is None and ram is None and not gpus:
            return None
        swap, swap_total = self._meter("swap", "", moment)
        load = _held(self._cells.get(("load", "")), moment)
        host = structs.replace(
            self._host,
            ram_used=ram,
            ram_total=ram_total,
            swap_used=swap,
            swap_total=swap_total,
            disk_free=self._meter("disk", "", moment)[0],
            load_1m=load,
            cpu_percent=None if newest is None else round(newest.mean, 1),
            cpu_history=_by_second((cell.t, cell.seconds, cell.mean) for cell in cpu),
            gpu_note="" if gpus else NO_GPU,
        )
        return host, gpus

    def why_none(self, moment: float) -> str:
        """Why there are no meters of unix time `moment`; before the first that were ever taken, or after the newest
        that are written, when those were.
        """
        if self._span is None:
            return NO_METERS
        first, last = self._span
        if self._kept_from < moment < first:
            return f"no meters yet at this moment: the first are of {_clock(first, moment)}"
        if moment > last:
            return f"no meters of this moment are written yet: the newest are of {_clock(last, moment)}"
        return NO_METERS

    @cached_property
    def _span(self) -> tuple[float, float] | None:
        """When (unix s) the first of all cells begins, and the last one ends; None where there are none."""
        cells = [cell for history in self._cells.values() for cell in history.finest(0.0, float("inf"))]
        if not cells:
            return None
        return min(it.t for it in cells) + self._ahead, max(it.t + it.seconds for it in cells) + self._ahead

    def _meter(self, what: str, gpu: str, moment: float) -> tuple[int | None, int | None]:
        """Bytes of a meter and of what they are a part; None where that was not kept."""
        history = self._cells.get((what, gpu))
        value = _held(history, moment)
        if history is None or value is None:
            return None, None
        return round(value), None if history.total is None else round(history.total)

    def strip(self, store: Store, request: GetStrip, moment: float) -> Strip:
        """The strip of the runs in `store`, up to unix time `moment`. A GPU of which nothing was kept is not in it."""
        strip = strip_of(self._tracks, store, request, moment)
        return structs.replace(strip, gpus=tuple(gpu for gpu in strip.gpus if gpu.busy or gpu.power))

    def _gpu(self, uuid: str, name: str, moment: float) -> GpuMeters | None:
        busy = _last_minute(self._tracks.busy.get(uuid), moment)
        now = _at(busy, moment)
        power = _at(_last_minute(self._tracks.power.get(uuid), moment), moment)
        memory, memory_total = self._meter("vram", uuid, moment)
        if now is None and power is None and memory is None:
            return None
        recent = merged(moment, (cell for cell in busy if cell.t >= moment - WINDOW_S))
        return GpuMeters(
            uuid=uuid,
            name=name,
            util=Utilisation(
                now=None if now is None else now.mean,
                mean=None if recent is None else recent.mean,
                max=None if recent is None else recent.most,
            ),
            memory_used=memory,
            memory_total=memory_total,
            power_w=None if power is None else round(power.mean, 1),
            temperature_c=_held(self._cells.get(("temperature", uuid)), moment),
            history=_by_second((cell.t, cell.seconds, cell.most) for cell in busy),
        )


def _clock(t: float, beside: float) -> str:
    """The time of unix time `t`, with its day where that is not the day of `beside`."""
    at, then = time.localtime(t), time.localtime(beside)
    return time.strftime("%H:%M:%S" if at[:3] == then[:3] else "%d %b %H:%M:%S", at)


def _last_minute(history: CellHistory | None, moment: float) -> list[Cell]:
    """Cells that begin in the minute up to `moment`, oldest first."""
    return [] if history is None else list(history.finest(moment - MINUTE_S, moment + 1e-3))


def _at(cells: list[Cell], moment: float) -> Cell | None:
    """The cell that covers `moment`."""
    return cells[-1] if cells and moment - (cells[-1].t + cells[-1].seconds) <= STALE_S else None


def _held(history: CellHistory | None, moment: float) -> float | None:
    """What a meter that moves slowly showed at `moment`: its cells are wide, and seldom looked at to their end."""
    if history is None:
        return None
    cells = list(history.finest(moment - METER_LEVELS[-1][0], moment + 1e-3))
    if not cells or moment - (cells[-1].t + cells[-1].seconds) > METER_LEVELS[0][0]:
        return None
    return round(cells[-1].mean, 2)


def _by_second(cells: Iterable[tuple[float, float, float]]) -> tuple[float, ...]:
    """Begin, length and value of cells as the highest value of each second: a wide cell counts in each that it covers.

    So a sparkline of wide cells is as long as one of fine ones.
    """
    seconds = dict[int, float]()
    for t, length, value in cells:
        for second in range(int(t), int(t) + max(1, round(length))):
            seconds[second] = max(value, seconds.get(second, value))
    return tuple(seconds[second] for second in sorted(seconds))[-MINUTE_S:]
