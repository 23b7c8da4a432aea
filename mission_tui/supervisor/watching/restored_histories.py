"""What earlier supervisors wrote of the instruments, as histories that go on: moved to the clock of who reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mission_tui.fleet.strips.cells import LEVELS, METER_LEVELS, SLOW_LEVELS, Cell, CellHistory, merged
from mission_tui.fleet.strips.phases import SpanHistory
from mission_tui.fleet.strips.strip import Span
from mission_tui.records.meter_history import TIERS, CellsRecord, Kept, SpansRecord

Track = tuple[str, str]
"""What is kept and the UUID of a GPU, or nothing where it is of the host; or `run` and its id."""
METERS = dict.fromkeys(("ram", "swap", "disk", "load", "vram", "temperature"), METER_LEVELS)
TRACKS = {"busy": LEVELS, "power": SLOW_LEVELS, "cpu": SLOW_LEVELS, **METERS}


@dataclass(frozen=True, slots=True)
class RestoredHistories:
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
