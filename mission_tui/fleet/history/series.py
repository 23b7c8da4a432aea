"""The columns of one run over its updates, kept compactly, with rewind, and thinned (downsampled)
for charts.

Rows are in file order and `update` rises strictly. A blank cell (never logged) and a NaN are different things: cells
are 32-bit floats, NaN marks a blank, and the few real NaNs are remembered by row.

How many episodes ended in each row, and how, is kept compactly beside the columns, and summed for charts.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct, field

from mission_tui.fleet.events.metrics import Episodes, Metric, UpdateDone, number, spoken
from mission_tui.fleet.text import clean

EPISODES = "episodes"
"""Asked for like a series, it brings the counts of episodes and their outcomes."""

MAX_COLUMNS = 128
"""Columns of one run; names beyond that are not charted, so a trainer that invents names cannot eat our memory."""

MAX_POINTS = 2000

OWN = ("steps_per_s", "rollout_s", "update_s")
MOST_OUTCOMES = 16
"""Outcomes that are told apart; what an environment names beyond them is counted as `OTHERS`."""
OTHERS = "others"
_LARGEST = 1 << 24
_FLOAT = {float}
_NAME_CHARS = 40


class Thinned(Struct, frozen=True):
    """Equal-length columns; x by bucket end, per series the bucket's least and greatest value, None where blank.

    `episodes` that ended in each bucket, and of them those of each of the `outcomes`; empty unless they were asked for.
    """

    updates: tuple[int, ...]
    timesteps: tuple[int, ...]
    t: tuple[float, ...]
    low: dict[str, tuple[Metric | None, ...]]
    high: dict[str, tuple[Metric | None, ...]]
    episodes: tuple[int, ...] = ()
    outcomes: dict[str, tuple[int, ...]] = field(default_factory=dict)


_BLOCK = 64
"""Rows whose least and greatest cell are kept, because a chart of a long run asks for those of all of it again."""


class Column(Struct):
    """One series: `cells[i]` belongs to row i; shorter than the rows when the latest ones are blank.

    `nans` are the rows of real NaNs, None where there are none: a supervisor holds some thirty series of each run.
    `extremes` are the least and the greatest cell of each block, nan where a cell of it is, once they were asked for.
    """

    cells: array[float] = field(default_factory=lambda: array("f"))
    nans: set[int] | None = None
    extremes: tuple[array[float], array[float]] | None = None

    def put(self, row: int, value: float) -> None:
        cells = self.cells
        if row > len(cells):
            cells.extend([math.nan] * (row - len(cells)))
        if row == len(cells):
            cells.append(value)
        else:
            cells[row] = value
            self._forget_blocks(row)
        if math.isnan(value):
            if self.nans is None:
                self.nans = set()
            self.nans.add(row)

    def cut(self, rows: int) -> None:
        del self.cells[rows:]
        self._forget_blocks(rows)
        self.nans = {row for row in self.nans or () if row < rows} or None

    def drop_first(self, rows: int) -> None:
        del self.cells[:rows]
        self._forget_blocks(0)
        self.nans = {row - rows for row in self.nans or () if row >= rows} or None

    def _forget_blocks(self, row: int) -> None:
        """From the block of `row` on they are taken anew."""
        for column in self.extremes or ():
            del column[row // _BLOCK :]

    def span(self, first: int, last: int) -> tuple[float, float] | None:
        """The least and greatest of rows first..last-1; None where one of them is nan or missing."""
        begin, end = -(-first // _BLOCK), min(last, len(self.cells)) // _BLOCK
        if end <= begin or last > len(self.cells):
            cells = self.cells[first:last]
            return None if len(cells) < last - first or math.isnan(sum(cells)) else (min(cells), max(cells))
        if self.extremes is None:
            self.extremes = array("f"), array("f")
        least, greatest = self.extremes
        for block in range(len(least), end):
            cells = self.cells[block * _BLOCK : (block + 1) * _BLOCK]
            broken = math.isnan(sum(cells))
            least.append(math.nan if broken else min(cells))
            greatest.append(math.nan if broken else max(cells))
        lows, highs = least[begin:end], greatest[begin:end]
        for rest in (self.cells[first : begin * _BLOCK], self.cells[end * _BLOCK : last]):
            lows.extend(rest)
            highs.extend(rest)
        return None if math.isnan(sum(lows)) else (min(lows), max(highs))

    def at(self, row: int) -> float | None:
        if row >= len(self.cells) or (math.isnan(self.cells[row]) and row not in (self.nans or ())):
            return None
        return self.cells[row]


class Columns:
    """Every row of a run that still counts."""

    def __init__(self) -> None:
        self._updates = array("q")
        self._timesteps = array("q")
        self._t = array("d")
        self._trained_s = array("d")
        self._columns: dict[str, Column] = {}
        self._counts = EpisodeCounts()
        self._usual: tuple[str, ...] = ()
        self._cells: list[array[float]] = []

    def __len__(self) -> int:
        return len(self._updates)

    def steps_between(self, since: float, until: float) -> int | None:
        """The timesteps done from unix time `since` to `until`, an update's spread evenly over its time; None where the
        rows do not reach back to `since`, except to the first of all.
        """
        if not self._updates or (self._updates[0] > 1 and self._t[0] > since):
            return None
        return max(0, round(self._steps_at(until) - self._steps_at(since)))

    def _steps_at(self, t: float) -> float:
        after = bisect_right(self._t, t)
        if after == 0:
            return 0.0 if self._updates[0] == 1 else float(self._timesteps[0])
        if after == len(self._t):
            return float(self._timesteps[-1])
        part = (t - self._t[after - 1]) / max(1e-9, self._t[after] - self._t[after - 1])
        return self._timesteps[after - 1] + part * (self._timesteps[after] - self._timesteps[after - 1])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._columns)

    def first_of_last(self, rows: int) -> int:
        """The update of the first of the last `rows` rows; 0 where there is none."""
        return self._updates[max(0, len(self) - rows)] if self._updates else 0

    def append(self, row: UpdateDone) -> None:
        """Add a row. A row that is not later than the last one is ignored: it was said twice."""
        if self._updates and row.update <= self._updates[-1]:
            return
        index = len(self._updates)
        self._updates.append(row.update)
        self._timesteps.append(row.timesteps)
        self._t.append(row.t)
        self._trained_s.append(math.nan if row.trained_s is None else row.trained_s)
        names, said = (*OWN, *row.metrics), (row.steps_per_s, row.rollout_s, row.update_s, *row.metrics.values())
        # The usual row, whole and of the same names as the one before, is put here: a start reads thousands of them.
        if names == self._usual and set(map(type, said)) == _FLOAT and not math.isnan(sum(said)):  # type: ignore[arg-type]
            for cells, metric in zip(self._cells, said, strict=True):
                cells.append(metric)  # type: ignore[arg-type]
        else:
            for name, metric in zip(names, said, strict=True):
                column = self._columns.get(name)
                if column is not None and type(metric) is float and metric == metric and len(column.cells) == index:
                    column.cells.append(metric)
                else:
                    self._put(index, name, number(metric))
            self._expect(names)
        self._counts.put(index, row.episodes)

    def _expect(self, names: tuple[str, ...]) -> None:
        """Take the next row for one of `names`, if each has a column: the row before made those a cell longer."""
        columns = [column for name in names if (column := self._columns.get(name)) is not None]
        usual = len(columns) == len(set(names)) == len(names)
        self._usual, self._cells = (names, [column.cells for column in columns]) if usual else ((), [])

    def annotate(self, update: int, name: str, metric: Metric) -> None:
        """Add a value to the row of `update`, which others may have followed while it was measured.

        A row that is not there any more gets none.
        """
        row = bisect_left(self._updates, update)
        if row < len(self) and self._updates[row] == update:
            self._put(row, name, number(metric))

    def last_row(self, attempt: int, seq: int) -> UpdateDone | None:
        """The last row as the record it was, without its episodes, with 7 significant digits; None without rows."""
        if not self._updates:
            return None
        row = len(self) - 1
        values = {name: value for name, column in self._columns.items() if (value := column.at(row)) is not None}
        own = [float(_short(values.pop(name, 0.0))) for name in OWN]
        return UpdateDone(
            seq=seq,
            attempt=attempt,
            update=self._updates[row],
            timesteps=self._timesteps[row],
            t=self._t[row],
            steps_per_s=own[0],
            rollout_s=own[1],
            update_s=own[2],
            metrics={name: _short(value) for name, value in values.items()},
        )

    def rewind(self, update: int) -> None:
        """Drop rows later than `update`."""
        rows = bisect_right(self._updates, update)
        del self._updates[rows:], self._timesteps[rows:], self._t[rows:], self._trained_s[rows:]
        for column in self._columns.values():
            column.cut(rows)
        self._counts.cut(rows)

    def keep_last(self, rows: int) -> None:
        """Forget all but the last `rows` rows."""
        surplus = max(0, len(self) - rows)
        del self._updates[:surplus], self._timesteps[:surplus], self._t[:surplus], self._trained_s[:surplus]
        for column in self._columns.values():
            column.drop_first(surplus)
        self._counts.drop_first(surplus)

    def tail(self, name: str, points: int) -> tuple[float | None, ...]:
        """The last `points` values of a series, oldest first, None where blank."""
        column = self._columns.get(name)
        rows = range(max(0, len(self) - points), len(self))
        return tuple(column.at(row) if column else None for row in rows)

    def place_at(self, t: float) -> tuple[int, int] | None:
        """Update and timesteps of the last row that had ended at unix time `t`; None before the first."""
        row = bisect_right(self._t, t) - 1
        return (self._updates[row], self._timesteps[row]) if row >= 0 else None

    def rows_from(self, row: int, one: str, other: str) -> Iterator[tuple[int, int, float | None, float | None, int]]:
        """From `row` on: update, timesteps, the values of two series, and how many episodes ended."""
        first, second = (self._columns.get(name) or Column() for name in (one, other))
        for at in range(row, len(self)):
            one_value, other_value = _number_in(first.at(at)), _number_in(second.at(at))
            yield self._updates[at], self._timesteps[at], one_value, other_value, self._counts.ended(at)

    def speeds(self, begin: float, end: float, most: int) -> list[tuple[float, float, float]]:
        """Of rows with `begin` < t <= `end` (unix s): t, the seconds that the update took, and its steps per second.

        Of more than `most` the first ones, below 0 the last. Where a trainer does not report how long updates take, it
        is the time since the row before.
        """
        first, last = bisect_right(self._t, begin), bisect_right(self._t, end)
        first, last = (first, min(last, first + most)) if most >= 0 else (max(first, last + most), last)
        rates, rollouts, updates = (self._columns.get(name) for name in OWN)
        if rates is None or rollouts is None or updates is None:
            return []
        found = []
        for row in range(first, last):
            seconds = (rollouts.at(row) or 0.0) + (updates.at(row) or 0.0)
            if seconds <= 0.0 and row > 0:
                seconds = self._t[row] - self._t[row - 1]
            found.append((self._t[row], seconds, rates.at(row) or 0.0))
        return found

    def first_t(self, since: float) -> float | None:
        """When (unix s) the first row after `since` ended; None before it has."""
        first = bisect_right(self._t, since)
        return self._t[first] if first < len(self) else None

    @property
    def trained_s(self) -> float:
        """Seconds of training until the last row; those of its phases alone where the trainer does not say it."""
        if self._trained_s and not math.isnan(self._trained_s[-1]):
            return self._trained_s[-1]
        phases = (self._columns.get(name) or Column() for name in ("rollout_s", "update_s"))
        return math.fsum(value for column in phases for value in column.cells if not math.isnan(value))

    def paces(self, points: int) -> list[float | None]:
        """Steps per second of training of the last `points` rows, with what lies between updates; those of the update
        alone where the trainer does not say it.
        """
        paces = list(self.tail("steps_per_s", points))
        first = len(self) - len(paces)
        for row in range(first, len(self)):
            if row == 0 and self._updates[0] > 1:
                continue
            done, before_s = (self._timesteps[row - 1], self._trained_s[row - 1]) if row else (0, 0.0)
            took_s = self._trained_s[row] - before_s  # nan where one of them is not said
            if took_s > 0.0 and paces[row - first]:
                paces[row - first] = (self._timesteps[row] - done) / took_s
        return paces

    def thin(self, names: Sequence[str], from_update: int, to_update: int | None, points: int) -> Thinned:
        """Rows `from_update..to_update` in at most `points` buckets of equally many rows (at most `MAX_POINTS`)."""
        first = bisect_left(self._updates, from_update)
        last = len(self) if to_update is None else bisect_right(self._updates, to_update)
        rows = max(0, last - first)
        buckets = min(rows, max(1, min(points, MAX_POINTS)))
        edges = [first + rows * bucket // buckets for bucket in range(buckets + 1)] if buckets else [first]
        ends = [edge - 1 for edge in edges[1:]]
        low: dict[str, tuple[Metric | None, ...]] = {}
        high: dict[str, tuple[Metric | None, ...]] = {}
        episodes, outcomes = self._counts.sums(edges) if EPISODES in names else ((), {})
        for name in names:
            if name == EPISODES:
                continue
            pairs = [self._extremes(name, *edge) for edge in pairwise(edges)]
            low[name] = tuple(pair[0] for pair in pairs)
            high[name] = tuple(pair[1] for pair in pairs)
        return Thinned(
            updates=tuple(self._updates[row] for row in ends),
            timesteps=tuple(self._timesteps[row] for row in ends),
            t=tuple(self._t[row] for row in ends),
            low=low,
            high=high,
            episodes=episodes,
            outcomes=outcomes,
        )

    def _put(self, index: int, name: str, value: float | None) -> None:
        if value is None:
            return
        column = self._columns.get(name)
        if column is None:
            if len(self._columns) >= MAX_COLUMNS:
                return
            column = self._columns[name] = Column()
        column.put(index, value)

    def _extremes(self, name: str, first: int, last: int) -> tuple[Metric | None, Metric | None]:
        """Least and greatest cell of rows first..last-1; one NaN makes both NaN, so that no chart hides it."""
        column = self._columns.get(name)
        if column is None:
            return None, None
        if (span := column.span(first, last)) is not None:
            return _short(span[0]), _short(span[1])
        cells = column.cells[first:last]
        if math.isnan(sum(cells)):
            if column.nans and any(row in column.nans for row in range(first, last)):
                return "nan", "nan"
            cells = array("f", (cell for cell in cells if not math.isnan(cell)))
        return (_short(min(cells)), _short(max(cells))) if cells else (None, None)


def _number_in(cell: float | None) -> float | None:
    """The number in a cell; None where there is none."""
    return None if cell is None else number(_short(cell))


def _short(value: float) -> Metric:
    """A 32-bit cell with the digits it has: 0.1 again, not 0.10000000149."""
    return spoken(float(f"{value:.7g}"))


class EpisodeCounts:
    """One count a row and outcome. Rows are those of `fleet.history.series.Columns`, which keeps both in step."""

    def __init__(self) -> None:
        self._ended = array("I")
        self._outcomes: dict[str, array[int]] = {}

    def put(self, row: int, episodes: Episodes) -> None:
        """Count what ended in row `row`, which is the last."""
        _put(self._ended, row, episodes.n)
        for name, count in episodes.outcomes.items():
            word = clean(name, _NAME_CHARS)
            if word not in self._outcomes and len(self._outcomes) >= MOST_OUTCOMES:
                word = OTHERS
            _put(self._outcomes.setdefault(word, array("I")), row, count)

    def ended(self, row: int) -> int:
        """How many episodes ended in `row`."""
        return self._ended[row] if row < len(self._ended) else 0

    def cut(self, rows: int) -> None:
        """Forget all rows from `rows` on."""
        for column in (self._ended, *self._outcomes.values()):
            del column[rows:]

    def drop_first(self, rows: int) -> None:
        """Forget the first `rows` rows."""
        for column in (self._ended, *self._outcomes.values()):
            del column[:rows]

    def sums(self, edges: Sequence[int]) -> tuple[tuple[int, ...], dict[str, tuple[int, ...]]]:
        """Of the rows between each two of `edges`: how many episodes ended, and how many of each outcome."""
        spans = list(pairwise(edges))
        outcomes = {name: _sums(self._outcomes[name], spans) for name in sorted(self._outcomes)}
        return _sums(self._ended, spans), {name: counts for name, counts in outcomes.items() if any(counts)}


def _put(column: array[int], row: int, count: int) -> None:
    column.extend([0] * (row + 1 - len(column)))
    column[row] = min(_LARGEST, column[row] + max(0, count))


def _sums(column: array[int], spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(sum(column[first:last]) for first, last in spans)
