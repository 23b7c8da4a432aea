"""What the instruments showed, on disk: `.supervisor/instruments/`, lines with a CRC in files of three tiers; and what
earlier supervisors wrote there, as histories that go on.

Fine cells and spans are kept for a quarter of an hour, coarser ones longer. A file is begun anew now and then and by
each writer, so a torn line is the last of its file; files are removed as a whole. Nothing is synced: what a power cut
takes is some minutes of a picture, and damage costs the lines that it hit. Restored histories are moved to the clock of
who reads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from mission_tui.fleet.phases import SpanHistory
from mission_tui.fleet.strip import LEVELS, METER_LEVELS, SLOW_LEVELS, Cell, CellHistory, Span, merged
from mission_tui.plain_files import make_folder, names_in, open_to_append
from mission_tui.records.atomic import storing, write_all
from mission_tui.records.jsonl import encode_line, read_all

MOST_BYTES = 200_000_000
"""All files together; the oldest go first where a machine with very many GPUs and runs would take more."""
NAME = re.compile(r"(fine|middle|coarse)-(\d{1,12})-\d{1,9}\.jsonl")

Track = tuple[str, str]
"""What is kept and the UUID of a GPU, or nothing where it is of the host; or `run` and its id."""
METERS = dict.fromkeys(("ram", "swap", "disk", "load", "vram", "temperature"), METER_LEVELS)
TRACKS = {"busy": LEVELS, "power": SLOW_LEVELS, "cpu": SLOW_LEVELS, **METERS}


class Tier(Struct, frozen=True):
    """Seconds between two writings, until a file is followed by the next, and for which what it holds is kept."""

    name: str
    write_s: float
    file_s: float
    keep_s: float


TIERS = (
    Tier("fine", 10.0, 300.0, 900.0),
    Tier("middle", 60.0, 1_800.0, 7_200.0),
    Tier("coarse", 600.0, 14_400.0, 86_400.0),
)
"""Finest first. What a coarse one has not been written when the supervisor dies is made again from a finer one."""


class CellsRecord(Struct, frozen=True, tag="cells", tag_field="kind", omit_defaults=True):
    """Cells of one track of the GPU `gpu`, called `name`, or of the host; times are unix s.

    In percent `busy` of a GPU and the host's `cpu`; `power` in W, `temperature` in degrees Celsius; in bytes a GPU's
    `vram` and the host's `ram` and `swap` in use, each with its `total`, and what is free of the `disk`; the `load`.
    """

    seq: int
    track: str
    gpu: str = ""
    name: str = ""
    cells: tuple[Cell, ...] = ()
    total: float | None = None


class SpansRecord(Struct, frozen=True, tag="spans", tag_field="kind", omit_defaults=True):
    """Phases of the run `run`."""

    seq: int
    run: str
    spans: tuple[Span, ...] = ()


Kept = CellsRecord | SpansRecord


class MeterFiles:
    """The files below `folder`. One writer; a reader may look at them at any time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, tuple[Path, float, int]] = {}

    def append(self, tier: Tier, now: float, makers: Sequence[Callable[[int], Kept]]) -> None:
        """Write the records that `makers` build for the next numbers at unix time `now`. Raises `StorageError`."""
        if not makers:
            return
        path, begun, seq = self._open.pop(tier.name, (None, 0.0, 0))
        if path is None or not begun <= now < begun + tier.file_s:
            path, begun, seq = self._folder / f"{tier.name}-{int(now)}-{os.getpid()}.jsonl", now, 0
        lines = b"".join(encode_line(make(seq + number)) for number, make in enumerate(makers, 1))
        with storing(path, "append to"):
            make_folder(self._folder)
            descriptor = open_to_append(path)
            try:
                write_all(descriptor, lines)
            finally:
                os.close(descriptor)
        # Only now: after a refusal the next file is another one, because this may end in half a line.
        self._open[tier.name] = path, begun, seq + len(makers)

    def read(self, tier: Tier, now: float) -> tuple[list[Kept], list[str]]:
        """What is kept of the last `keep_s` before `now`, oldest first, and a sentence per incident of damage."""
        kept, damage = list[Kept](), list[str]()
        for begun, path in self._files():
            if path.name.startswith(tier.name) and now - tier.keep_s - tier.file_s <= begun <= now:
                with suppress(OSError):
                    records, bad = read_all(path, Kept)
                    kept += records
                    damage += bad
        return kept, damage

    def prune(self, now: float, most_bytes: int = MOST_BYTES) -> None:
        """Remove files that hold nothing more of their time, and the oldest ones beyond `most_bytes`. Never raises."""
        keep = {tier.name: tier.file_s + tier.keep_s for tier in TIERS}
        left = 0
        for begun, path in sorted(self._files(), reverse=True):
            with suppress(OSError):
                left += path.lstat().st_size
                if begun + keep[path.name.split("-")[0]] < now or left > most_bytes:
                    path.unlink()

    def _files(self) -> Iterator[tuple[float, Path]]:
        """When each file was begun, and its path, oldest first."""
        with suppress(OSError):
            found = [(NAME.fullmatch(name), self._folder / name) for name in names_in(self._folder)]
            yield from sorted((float(name[2]), path) for name, path in found if name is not None)


class RestoredHistories(Struct, frozen=True):
    """`newest`: by tier and track, when (on the reader's clock) the last thing ends that is in the files."""

    cells: dict[Track, CellHistory] = field(default_factory=dict)
    spans: dict[str, SpanHistory] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    newest: dict[tuple[int, Track], float] = field(default_factory=dict)


def restore_histories(read: Sequence[Iterable[Kept]], now: float, ahead: float) -> RestoredHistories:
    """The histories in what was read of each tier at unix time `now`; the reader's clock is `ahead` seconds behind it.

    What lies in the future, as after a clock was set back, is passed over, and so is what comes twice.
    """
    cells, spans, found = (
        dict[tuple[int, Track], list[Cell]](),
        dict[tuple[int, Track], list[Span]](),
        RestoredHistories(),
    )
    totals = dict[Track, tuple[float, float | None]]()
    for tier, parts in enumerate(read):
        for part in parts:
            if isinstance(part, SpansRecord):
                spans.setdefault((tier, ("run", part.run)), []).extend(part.spans)
            elif part.track in TRACKS:
                cells.setdefault((tier, (part.track, part.gpu)), []).extend(part.cells)
                found.names.update({part.gpu: part.name} if part.gpu else {})
                track, newest = (part.track, part.gpu), max((cell.t for cell in part.cells), default=0.0)
                if track not in totals or newest > totals[track][0]:
                    totals[track] = newest, part.total
    for track in {track for _, track in cells}:
        levels = TRACKS[track[0]]
        history = found.cells[track] = CellHistory(levels)
        history.total = totals[track][1]
        first = len(TIERS) - len(levels)
        kept = [
            list(_in_cells(cells.get((first + level, track), ()), width, now, ahead))
            for level, (width, _) in enumerate(levels)
        ]
        history.restore(kept)
        found.newest.update({(first + level, track): part[-1].t for level, part in enumerate(kept) if part})
    for track in {track for _, track in spans}:
        history_of_run = found.spans[track[1]] = SpanHistory()
        phases = [list(_in_order(spans.get((tier, track), ()), now)) for tier in range(len(TIERS))]
        history_of_run.restore(phases)
        found.newest.update({(tier, track): ended[-1].until for tier, ended in enumerate(phases) if ended})
    return found


def behind(read: Sequence[Iterable[Kept]]) -> float:
    """By how many seconds a clock is behind unix time on which the newest of the widest cells begin at whole multiples
    of their width; so it is for those of its time, all widths being parts of the widest one.
    """
    widest, newest = 0.0, 0.0
    for tier, parts in enumerate(read):
        for part in parts:
            if isinstance(part, CellsRecord) and part.track in TRACKS and part.cells:
                levels = TRACKS[part.track]
                width = levels[max(0, tier - len(TIERS) + len(levels))][0]
                widest, newest = max((widest, newest), (width, part.cells[-1].t))
    return newest % widest if widest else 0.0


def _in_cells(cells: Iterable[Cell], width: float, now: float, ahead: float) -> Iterator[Cell]:
    """The cells on the reader's clock, where they begin at whole multiples of their width again."""
    last: Cell | None = None
    for cell in sorted((cell for cell in cells if 0 < cell.t <= now and cell.looks > 0 and cell.seconds > 0), key=_t):
        t = round((cell.t - ahead) / width) * width
        if last is not None and t - last.t < width / 2:
            last = merged(t, (last, cell))
            continue
        if last is not None:
            yield last
        last = Cell(t, cell.least, cell.mean, cell.most, cell.seconds, cell.looks)
    if last is not None:
        yield last


def _in_order(spans: Iterable[Span], now: float) -> Iterator[Span]:
    until = float("-inf")
    for span in sorted((span for span in spans if span.until <= now), key=lambda span: span.since):
        if span.until > max(until, span.since):
            yield Span(span.phase, max(span.since, until), span.until)
            until = span.until


def _t(cell: Cell) -> float:
    return cell.t
