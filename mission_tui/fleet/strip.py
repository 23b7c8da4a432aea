"""The strip: what the GPUs did and in which phase each run was, on one time axis; and the cells that it is made of:
least, mean and most of a value over every stretch, thinned with age without losing a peak.

A mean alone hides PPO's bursts and a peak alone makes them look like the rule, so both stay at every age. Times of a
cell are seconds on whatever clock the caller has, of a strip unix seconds; a cell at `t` covers `[t, t + width)`. A
stretch that was not watched has no cell and no span, so that a gap is a gap and never a zero.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import ceil
from typing import Literal

from msgspec import Struct

from mission_tui.fleet.events.outcome import Phase

CELL_S = 0.25
"""PPO's update bursts last from tenths of a second to minutes; a cell has five looks at them at 20 Hz."""
LEVELS = ((CELL_S, 900.0), (1.0, 7_200.0), (10.0, 86_400.0))
"""Width of the cells and for how long they are kept, both in seconds; finest first, each a multiple of the last."""
SLOW_LEVELS = LEVELS[1:]
"""For what is asked for once a second."""
METER_LEVELS = ((10.0, 7_200.0), (60.0, 86_400.0))
"""For what only a replay shows: memory, disk, load, heat."""
WINDOW_S = 20.0
"""What the mean and the peak beside a meter are of."""
FIELDS = 6
MOST_STALE = 256
WIDTHS = (CELL_S, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0, 3_600.0)
"""In which a history is read back."""

StandState = Literal["queued", "paused", "frozen", "parked"]
"""The states in which a run does nothing because it was asked to wait."""


class Cell(Struct, frozen=True, array_like=True):
    """What a value did from `t` on: `least`, `mean` and `most` of `looks` (at least one) that stand for `seconds`.

    A look stands for the time since the one before it, so that a busy machine, which looks unevenly, shifts no mean.
    """

    t: float
    least: float
    mean: float
    most: float
    seconds: float
    looks: int = 1


def merged(t: float, cells: Iterable[Cell]) -> Cell | None:
    """One cell at `t` for all of them: the mean is that of the time they stand for, not of the cells' means."""
    least, total, most, seconds, looks = float("inf"), 0.0, float("-inf"), 0.0, 0
    for cell in cells:
        least, most = min(least, cell.least), max(most, cell.most)
        total += cell.mean * cell.seconds
        seconds += cell.seconds
        looks += cell.looks
    return Cell(t, least, min(most, max(least, total / seconds)), most, seconds, looks) if looks else None


class CellAccumulator:
    """Cells of one width in the making: give it looks or finer cells in their order, it gives back what is complete.

    What comes late, for a cell already given back, counts in the one that is open.
    """

    def __init__(self, width: float) -> None:
        self._width = width
        self._open: Cell | None = None

    def add(self, cell: Cell) -> Cell | None:
        """The cell that is complete because `cell` lies after it, if one is."""
        begun = self._open
        edge = cell.t // self._width * self._width
        if begun is not None and edge <= begun.t:
            self._open = merged(begun.t, (begun, cell))
            return None
        self._open = Cell(edge, cell.least, cell.mean, cell.most, cell.seconds, cell.looks)
        return begun

    def take(self) -> Cell | None:
        """The open cell as it is; nothing is open afterwards."""
        begun, self._open = self._open, None
        return begun

    @property
    def open(self) -> Cell | None:
        """What has been gathered and not been given back."""
        return self._open


class CellHistory:
    """A day of one value: fine cells of the last quarter of an hour, coarser ones before, in a bounded memory.

    `total` is what the value was a part of when it was last looked at; None where it is a part of nothing.
    """

    def __init__(self, levels: Sequence[tuple[float, float]] = LEVELS) -> None:
        self.total: float | None = None
        self.levels = tuple(levels)
        self._kept = tuple(_Tier(round(span / width)) for width, span in self.levels)
        self._gathering = tuple(CellAccumulator(width) for width, _ in self.levels)

    def add(self, cell: Cell) -> None:
        """Take the next cell or look, no older than the last one."""
        for gathering, kept in zip(self._gathering, self._kept, strict=True):
            complete = gathering.add(cell)
            if complete is not None:
                kept.append(complete)

    def add_constant(self, value: float, since: float, seconds: float) -> None:
        """Take in that the value was this one in the `seconds` from `since` on."""
        self.add(Cell(since, value, value, value, seconds))

    def complete(self, level: int, since: float) -> list[Cell]:
        """What `level` keeps for good and begins at or after `since`, oldest first."""
        found = []
        for cell in reversed(self._kept[level]):
            if cell.t < since:
                break
            found.append(cell)
        return found[::-1]

    def restore(self, kept: Sequence[Iterable[Cell]]) -> None:
        """Begin with what another history kept of each level. What its coarser ones had not completed is made anew."""
        finer: _Tier | None = None
        for (width, _), tier, gathering, cells in zip(self.levels, self._kept, self._gathering, kept, strict=True):
            for cell in cells:
                tier.append(cell)
            missing = next(iter(reversed(tier))).t + width if len(tier) else float("-inf")
            for cell in finer if finer is not None else ():
                complete = gathering.add(cell) if cell.t >= missing else None
                if complete is not None:
                    tier.append(complete)
            finer = tier
        tiers = list(zip(self.levels, self._kept, strict=True))
        for (_, finer), ((width, _), coarser) in reversed(list(pairwise(tiers))):
            # The coarser cell in which the fine ones begin is no older than they are, though it begins before them.
            older = coarser.first < (finer.first // width * width if len(finer) else float("inf"))
            empty = not len(finer) and not len(coarser)
            finer.forgot = finer.forgot or older or (empty and coarser.forgot)

    def between(self, since: float, until: float, most: int) -> tuple[Cell, ...]:
        """What happened from `since` to `until` in at most so many cells of one width, oldest first.

        Cells are aligned to their width, so that a moving window does not change what lies in it. What is too old to be
        known that finely comes in the wider cells in which it was kept.
        """
        if until <= since or most < 1:
            return ()
        width = next((width for width in WIDTHS if (until - since) / width <= most), (until - since) / most)
        gathering, found = CellAccumulator(width), list[Cell]()
        for cell in self.finest(since, until):
            complete = gathering.add(cell)
            if complete is not None:
                found.append(complete)
        last = gathering.take()
        return (*found, last)[-most:] if last is not None else tuple(found[-most:])

    def finest(self, since: float, until: float) -> Iterator[Cell]:
        """Every moment once: from the finest level that reaches back to it."""
        parts, end = list[list[Cell]](), until
        coarser = [width for width, _ in self.levels[1:]]
        for kept, gathering, width in zip(self._kept, self._gathering, [*coarser, 0.0], strict=True):
            part, reaches = _newest(kept, gathering.open, since, end)
            reaches = reaches or not kept.forgot
            if part and width and not reaches:
                # The coarser cell in which the fine ones begin holds them, too.
                end = ceil(part[-1].t / width) * width
                part = [cell for cell in part if cell.t >= end]
            parts.append(part)
            if reaches:
                break
        for part in reversed(parts):
            yield from reversed(part)


class _Tier:
    """The last so many cells, 48 bytes each, oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._numbers = array("d")
        self.forgot = False

    @property
    def first(self) -> float:
        """When its oldest cell begins; infinity without one."""
        return self._numbers[0] if self._numbers else float("inf")

    def append(self, cell: Cell) -> None:
        self._numbers.extend((cell.t, cell.least, cell.mean, cell.most, cell.seconds, cell.looks))
        if len(self) > self._most + MOST_STALE:
            del self._numbers[: FIELDS * MOST_STALE]
            self.forgot = True

    def __len__(self) -> int:
        return len(self._numbers) // FIELDS

    def __iter__(self) -> Iterator[Cell]:
        for index in range(0, len(self._numbers), FIELDS):
            yield self._cell(index)

    def __reversed__(self) -> Iterator[Cell]:
        for index in range(len(self._numbers) - FIELDS, -1, -FIELDS):
            yield self._cell(index)

    def back_from(self, until: float) -> Iterator[Cell]:
        """Those that begin before `until`, newest first."""
        place = bisect_left(range(len(self)), until, key=lambda number: self._numbers[FIELDS * number])
        for index in range(FIELDS * (place - 1), -1, -FIELDS):
            yield self._cell(index)

    def _cell(self, index: int) -> Cell:
        t, least, mean, most, seconds, looks = self._numbers[index : index + FIELDS]
        return Cell(t, least, mean, most, seconds, int(looks))


def _newest(kept: _Tier, begun: Cell | None, since: float, until: float) -> tuple[list[Cell], bool]:
    """The cells from `since` to `until`, newest first, and whether these are all: there are older ones, too."""
    found = [begun] if begun is not None and since <= begun.t < until else []
    for cell in kept.back_from(until):
        if cell.t < since:
            return found, True
        found.append(cell)
    return found, False


class Span(Struct, frozen=True, array_like=True, gc=False):
    """A run was in `phase` from `since` to `until`; the span that goes on ends where the strip does."""

    phase: Phase
    since: float
    until: float


class StateInterval(Struct, frozen=True, array_like=True):
    """A run stood in `state` from `since` to `until`, by its journal."""

    state: StandState
    since: float
    until: float


class Lane(Struct, frozen=True, kw_only=True):
    """One run's phases, oldest first, none overlapping the next.

    `gpu`: the UUID of the GPU that it trains on; empty where it trains on none, or that is not known. `steps`: the
    timesteps that it did between the strip's ends; None where that is not at hand. `stands` say what became of it where
    it has no phase, or what its trainer was not heard to say.
    """

    run: str
    name: str
    spans: tuple[Span, ...] = ()
    gpu: str = ""
    steps: int | None = None
    stands: tuple[StateInterval, ...] = ()


class GpuTrack(Struct, frozen=True, kw_only=True):
    """How busy one GPU was, in percent, and its power in watts; without power where the driver does not tell."""

    uuid: str
    name: str
    busy: tuple[Cell, ...] = ()
    power: tuple[Cell, ...] = ()


class Strip(Struct, frozen=True, kw_only=True):
    """Everything between `since` and `until`; `cpu` is the host's processor use in percent of all its cores."""

    since: float
    until: float
    gpus: tuple[GpuTrack, ...] = ()
    cpu: tuple[Cell, ...] = ()
    lanes: tuple[Lane, ...] = ()
