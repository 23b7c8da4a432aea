"""The data of the strip: the newest answer, the requests for it, and its cells and phases cut into columns.

It is requested no more often than a column takes, never twice at once, and only by a widget that is seen. Columns begin
at whole multiples of their width, so that the past keeps its place while time goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from mission_tui.errors import MissionError
from mission_tui.fleet.events.outcome import Phase
from mission_tui.fleet.strip import WIDTHS, Cell, Lane, Span, StandState, Strip
from mission_tui.ipc.replies import StripReply
from mission_tui.ipc.requests import Answer, AnsweredBy, GetStrip
from mission_tui.tui.client import LatestQuery

_REACHES = (
    (15.0, "15s"),
    (60.0, "1m"),
    (300.0, "5m"),
    (900.0, "15m"),
    (3600.0, "1h"),
    (21_600.0, "6h"),
    (86_400.0, "24h"),
)
_USUAL = 2
_CELLS_A_COLUMN = 4
"""A cell that lies in two columns shows its peak in both, so cells are asked for that are finer than columns."""
_MOST_CELLS = 1200
_LEAST_PACE_S, _MOST_PACE_S = 1.0, 30.0
"""A short stretch moves by several columns a second, and each time nearly every cell of it is sent to the terminal."""
LaneState = Phase | StandState
"""What a lane may show of a moment."""

_JITTER_S = 0.002
"""By how much a moment may be off: the supervisor turns its clock into unix time at each answer."""
_NEARLY = 0.8
"""Looks stand for the time since the one before, so that those of a cell may stand for a little more than its width."""
_CONTIGUOUS = 1.5
"""A cell reaches to the next one unless that begins later than so many times its width."""


class Zoom:
    """How far back the strip goes; one for all screens of a session. It begins at `seconds`, if it can go so far."""

    def __init__(self, seconds: float | None) -> None:
        reaches = [reach for reach, _ in _REACHES]
        self._at = reaches.index(seconds) if seconds in reaches else _USUAL

    @property
    def seconds(self) -> float:
        """The stretch that is shown."""
        return _REACHES[self._at][0]

    @property
    def word(self) -> str:
        """The stretch as people say it: `15s`, `24h`."""
        return _REACHES[self._at][1]

    def turn(self, by: int) -> None:
        """A longer stretch, or with -1 a shorter one; at its ends it stays."""
        self._at = max(0, min(self._at + by, len(_REACHES) - 1))


_Stretch = tuple[float, int, float | None, str]
"""Seconds, columns, the moment of a replay, and the machine."""


class StripClient(Protocol):
    """What the query needs of the context; `at` is the machine that is asked."""

    @property
    def clock(self) -> Callable[[], float]: ...

    async def ask(self, make: Callable[[int], AnsweredBy[Answer]], at: str = "") -> Answer: ...

    def start(self, work: Coroutine[Any, Any, None]) -> None: ...


class TimelineQuery:
    """`strip` is the newest answer, `trouble` why the newest question has none; `changed` is called after each."""

    def __init__(self, client: StripClient, changed: Callable[[], None]) -> None:
        self._client = client
        self._changed = changed
        self._query = LatestQuery(client.start, self._ask, self._take, takes_all=True)
        self._asked: tuple[_Stretch, float] | None = None
        self.strip: Strip | None = None
        self.trouble: str | None = None

    def request(self, seconds: float, columns: int, moment: float | None = None, machine: str = "") -> None:
        """Ask for the last `seconds` in that many columns, if a new one may have begun or something else is wanted.

        In a replay they are those before unix time `moment`, of which nothing new is ever known. On a screen of several
        machines they are those of `machine`.
        """
        now, wanted = self._client.clock(), (seconds, columns, moment, machine)
        if self._asked is not None and self._asked[0][3] != machine:
            self.strip = None
        if columns < 1:
            return
        if self._asked is not None and self._asked[0] == wanted:
            pace = min(_MOST_PACE_S, max(_LEAST_PACE_S, seconds / columns))
            known = moment is not None and self.trouble is None
            if self._query.is_open or known or now - self._asked[1] < pace:
                return
        self._asked = wanted, now
        self._query.request(wanted)

    async def _ask(self, wanted: _Stretch) -> StripReply:
        seconds, columns, moment, machine = wanted
        # The oldest column begins before `seconds` ago, because the newest one is not over yet.
        reach, most = seconds * (1 + 1 / columns), min(_MOST_CELLS, _CELLS_A_COLUMN * columns)
        return await self._client.ask(lambda id_: GetStrip(id=id_, seconds=reach, until=moment, most=most), machine)

    def _take(self, wanted: _Stretch, found: StripReply | MissionError) -> None:
        if self._asked is not None and self._asked[0][3] != wanted[3]:
            return  # of another machine than is looked at by now
        if isinstance(found, MissionError):
            self.trouble = str(found)
        else:
            self.strip, self.trouble = found.strip, None
        self._changed()


class Axis(Struct, frozen=True):
    """`columns` of `width_s` seconds each, of which the last is the one with number `newest` since the epoch."""

    newest: int
    width_s: float
    columns: int

    @property
    def since(self) -> float:
        """When the first column begins, unix seconds."""
        return (self.newest + 1 - self.columns) * self.width_s

    def overlaps(self, since: float, until: float) -> Iterator[tuple[int, float]]:
        """The columns in which `since` to `until` lies, each with its seconds there; what barely touches counts not."""
        first = self.newest + 1 - self.columns
        begin = math.floor((since + _JITTER_S) / self.width_s)
        end = max(begin, math.ceil((until - _JITTER_S) / self.width_s) - 1)
        for number in range(max(begin, first), min(end, self.newest) + 1):
            start = number * self.width_s
            shared = min(until, start + self.width_s) - max(since, start)
            yield number - first, max(0.0, shared)


def axis_of(until: float, seconds: float, columns: int) -> Axis:
    """The axis of the last `seconds` before unix time `until`, which lies in its last column."""
    width = seconds / columns
    return Axis(math.ceil(until / width) - 1, width, columns)


class MeanAndPeak(Struct, frozen=True):
    """What a value did in one column."""

    mean: float
    peak: float


def busy_columns(cells: Sequence[Cell], axis: Axis) -> list[MeanAndPeak | None]:
    """Mean and peak of each column; None where nothing was measured. A peak is in every column of its cell."""
    weights, sums = [0.0] * axis.columns, [0.0] * axis.columns
    peaks = [-math.inf] * axis.columns
    for since, until, cell in _reaching(cells):
        for at, shared in axis.overlaps(since, until):
            # A cell that only touches its column still has one look to show there.
            weight = max(shared, 1e-9)
            weights[at] += weight
            sums[at] += weight * cell.mean
            peaks[at] = max(peaks[at], cell.most)
    return [
        MeanAndPeak(min(peaks[at], sums[at] / weights[at]), peaks[at]) if weights[at] else None
        for at in range(axis.columns)
    ]


def busy_over(cells: Sequence[Cell], axis: Axis) -> MeanAndPeak | None:
    """Mean and peak of everything that lies on the axis."""
    inside = [cell for cell in cells if cell.t + cell.seconds > axis.since]
    seconds = sum(cell.seconds for cell in inside)
    if not inside or seconds <= 0:
        return None
    return MeanAndPeak(sum(cell.mean * cell.seconds for cell in inside) / seconds, max(cell.most for cell in inside))


def _reaching(cells: Sequence[Cell]) -> Iterator[tuple[float, float, Cell]]:
    """Each cell with the stretch that it stands for.

    Its width is not said, and on a busy machine the looks in it stand for less than that; but there are few widths.
    """
    for at, cell in enumerate(cells):
        width = next((width for width in WIDTHS if width >= _NEARLY * cell.seconds), cell.seconds)
        gap = cells[at + 1].t - cell.t if at + 1 < len(cells) else cell.seconds
        yield cell.t, cell.t + (gap if gap <= _CONTIGUOUS * width else cell.seconds), cell


def phase_columns(spans: Iterable[Span], axis: Axis) -> list[dict[LaneState, float]]:
    """The seconds of each phase in every column; empty where none is known."""
    columns: list[dict[LaneState, float]] = [{} for _ in range(axis.columns)]
    for span in spans:
        for at, shared in axis.overlaps(span.since, span.until):
            if shared > 0:
                columns[at][span.phase] = columns[at].get(span.phase, 0.0) + shared
    return columns


def lane_columns(lane: Lane, axis: Axis) -> list[dict[LaneState, float]]:
    """As `phase_columns`, with the seconds in which the run stood, where no phase is known of them."""
    columns = phase_columns(lane.spans, axis)
    for stand in lane.stands:
        for at, shared in axis.overlaps(stand.since, stand.until):
            free = min(shared, axis.width_s - sum(columns[at].values()))
            if free > 0:
                columns[at][stand.state] = columns[at].get(stand.state, 0.0) + free
    return columns


def phase_shares(columns: Iterable[Mapping[LaneState, float]]) -> dict[LaneState, float]:
    """The seconds of each over all columns."""
    total: dict[LaneState, float] = {}
    for column in columns:
        for phase, seconds in column.items():
            total[phase] = total.get(phase, 0.0) + seconds
    return total


def update_share(seconds: Mapping[LaneState, float]) -> float | None:
    """Of the time in rollouts and updates the share of updates; None without either."""
    training = seconds.get("rollout", 0.0) + seconds.get("update", 0.0)
    return seconds.get("update", 0.0) / training if training > 0 else None
