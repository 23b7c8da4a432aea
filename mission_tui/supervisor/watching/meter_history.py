"""The history of the meters survives the supervisor: written every few seconds, read back by the next one.

The histories of GPUs and processors run on the monotonic clock, the files on unix time. Nothing is written on a full
disk, and nothing until the files have been read: what they hold is older than what has been seen since.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

from mission_tui.fleet.phases import PhaseHistory
from mission_tui.fleet.strip import Cell, CellHistory, Span
from mission_tui.records import meter_history
from mission_tui.records.atomic import StorageError
from mission_tui.records.runs.layout import instruments_dir
from mission_tui.supervisor.runs.clock_steps import unix_ahead
from mission_tui.supervisor.runs.machine_state import MachineState, reason_of
from mission_tui.supervisor.runs.registry import Runs

MOST_A_LINE = 4_000
"""Cells or spans: a line stays far below the length at which readers give up on it."""

NEXT_S = 1e-3
EARLY_S = 0.5
KEEPING = "keeping what instruments show"
log = logging.getLogger(__name__)

Moment = TypeVar("Moment", Cell, Span)
Maker = Callable[[int], meter_history.Kept]


class Instruments:
    """Keeps the histories of meters and phases on disk."""

    def __init__(self, runs: Runs, machine: MachineState) -> None:
        self._runs = runs
        self._machine = machine
        self.files = meter_history.MeterFiles(instruments_dir(runs.root))
        self._newest: dict[tuple[int, meter_history.Track], float] = {}
        self._due = [0.0] * len(meter_history.TIERS)
        self._loaded = False
        self._one_writer = threading.Lock()

    async def run(self) -> None:
        """Read what is there, then write for ever."""
        try:
            await self.load()
        except Exception as error:  # noqa: BLE001 - likewise: what it held is not shown, what is seen now is kept
            self._runs.duties.fail("reading what instruments showed", reason_of(error), error)
            self._loaded = True
        while True:
            await asyncio.sleep(meter_history.TIERS[0].write_s)
            try:
                await self.write(time.time())
            except Exception as error:  # noqa: BLE001 - a strip with a gap must not end who watches the runs
                self._runs.duties.fail(KEEPING, reason_of(error), error)

    async def load(self) -> None:
        """Put what the files hold before what was seen since the start."""
        now = time.time()
        read = await asyncio.to_thread(lambda: [self.files.read(tier, now) for tier in meter_history.TIERS])
        for sentence in (sentence for _, damage in read for sentence in damage):
            log.warning("instruments: %s", sentence)
            self._runs.duties.fail("reading what instruments showed", f"a part is damaged: {sentence}")
        found = await asyncio.to_thread(
            meter_history.restore_histories, [parts for parts, _ in read], now, unix_ahead()
        )
        self._newest = found.newest
        self._take(found)
        self._loaded = True

    async def write(self, now: float) -> None:
        """Write the tiers whose time has come, at unix time `now`; on a full disk later."""
        beat = time.monotonic()
        due = (
            [place for place in range(len(meter_history.TIERS)) if beat >= self._due[place]] if self._writable() else []
        )
        for place in due:
            self._due[place] = beat + meter_history.TIERS[place].write_s - EARLY_S
        if due:
            refused = await asyncio.to_thread(self._append, now, self._news(due, unix_ahead()))
            if refused:
                self._runs.duties.fail(KEEPING, refused)
            else:
                self._runs.duties.done(KEEPING)

    def close(self) -> None:
        """Write the rest."""
        if self._writable():
            self.put(range(len(meter_history.TIERS)), time.time(), unix_ahead())

    def put(self, places: Iterable[int], now: float, ahead: float) -> None:
        """Write the tiers at `places`, at unix time `now`; the histories' clock is `ahead` seconds behind it."""
        self._append(now, self._news(places, ahead))

    def _writable(self) -> bool:
        return self._loaded and not self._runs.reserve.needed

    def _append(self, now: float, makers: list[tuple[int, list[Maker]]]) -> str:
        """Write; returns why the disk refused it, if it did."""
        try:
            with self._one_writer:
                for place, made in makers:
                    self.files.append(meter_history.TIERS[place], now, made)
                self.files.prune(now)
        except StorageError as error:
            return str(error)
        return ""

    def _take(self, found: meter_history.RestoredHistories) -> None:
        self._machine.gpu.names = found.names | self._machine.gpu.names
        for (what, gpu), history in found.cells.items():
            since = self._tracks().get((what, gpu))
            if since is not None:
                for cell in since.finest(float("-inf"), float("inf")):
                    history.add(cell)
                history.total = since.total
            if what == "cpu":
                self._machine.host.cpu = history
            elif what in ("busy", "power"):
                (self._machine.gpu.busy if what == "busy" else self._machine.gpu.power)[gpu] = history
            elif gpu:
                self._machine.gpu.meters[what, gpu] = history
            else:
                self._machine.host.meters[what] = history
        known = set(self._runs.store.run_ids())
        for run, spans in found.spans.items():
            if run in known:
                self._runs.lanes.histories.setdefault(run, PhaseHistory()).begin_with(spans)

    def _tracks(self) -> dict[meter_history.Track, CellHistory]:
        host, gpu = self._machine.host, self._machine.gpu
        tracks: dict[meter_history.Track, CellHistory] = {("busy", uuid): history for uuid, history in gpu.busy.items()}
        tracks |= {("power", uuid): history for uuid, history in gpu.power.items()}
        tracks |= gpu.meters | {("cpu", ""): host.cpu}
        return tracks | {(what, ""): history for what, history in host.meters.items()}

    def _news(self, places: Iterable[int], ahead: float) -> list[tuple[int, list[Maker]]]:
        return [(place, [*self._cells(place, ahead), *self._spans(place)]) for place in places]

    def _cells(self, place: int, ahead: float) -> Iterator[Maker]:
        """Makers of the records that say which cells tier `place` has and the files have not."""
        names = self._machine.gpu.names
        for track, history in self._tracks().items():
            what, gpu = track
            level = place - len(meter_history.TIERS) + len(history.levels)
            cells = history.complete(level, self._mark(place, track) + NEXT_S) if level >= 0 else []
            if cells:
                self._newest[place, track] = cells[-1].t
            written = tuple(_rounded(cell, ahead) for cell in cells)
            for part in _parts(written):
                name = names.get(gpu, "")
                yield partial(
                    meter_history.CellsRecord, track=what, gpu=gpu, name=name, cells=part, total=history.total
                )

    def _spans(self, place: int) -> Iterator[Maker]:
        for run, lane in self._runs.lanes.histories.items():
            spans = lane.kept.complete(place, self._mark(place, ("run", run)))
            if spans:
                self._newest[place, ("run", run)] = spans[-1].until
            for part in _parts(tuple(spans)):
                yield partial(meter_history.SpansRecord, run=run, spans=part)

    def _mark(self, place: int, track: meter_history.Track) -> float:
        return self._newest.get((place, track), float("-inf"))


def _parts(whole: tuple[Moment, ...]) -> Iterator[tuple[Moment, ...]]:
    for start in range(0, len(whole), MOST_A_LINE):
        yield whole[start : start + MOST_A_LINE]


def _rounded(cell: Cell, ahead: float) -> Cell:
    least, mean, most, seconds = (round(value, 3) for value in (cell.least, cell.mean, cell.most, cell.seconds))
    return Cell(round(cell.t + ahead, 3), least, mean, most, max(seconds, 1e-3), cell.looks)
