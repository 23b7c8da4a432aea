"""What a chart goes over: timesteps, updates, the time that the run was alive, or the clock on the wall.

A ruler turns updates, timesteps and moments into places on its axis by the buckets of one history.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import Literal, get_args

from mission_tui.ipc.replies import AttemptView, HistoryReply
from mission_tui.tui.drawing import numbers
from mission_tui.tui.plot.scale import steps_between

__all__ = ["OVERS", "Over", "Ruler", "ticks_over"]

Over = Literal["timesteps", "updates", "run time", "clock"]
OVERS: tuple[Over, ...] = get_args(Over)

_NICE_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)


class Ruler:
    """`places` are the ends of the history's buckets on the axis in their order, `updates` the last one of each.

    Run time leaves out what lay between two attempts; attempts that are not known count as one.
    """

    def __init__(self, history: HistoryReply, over: Over, attempts: Sequence[AttemptView] = ()) -> None:
        self.over = over
        self.updates, self._timesteps, self._t = history.updates, history.timesteps, history.t
        begun = [attempt.started_t for attempt in attempts if attempt.started_t is not None]
        self._spans = [(it.started_t, it.ended_t) for it in attempts if it.started_t is not None]
        self._origin = min([*begun, *self._t[:1]], default=0.0)
        self.places = self._of_all()

    def _of_all(self) -> tuple[float, ...]:
        match self.over:
            case "timesteps":
                return tuple(map(float, self._timesteps))
            case "updates":
                return tuple(map(float, self.updates))
            case "run time":
                return tuple(self._alive_s(t) for t in self._t)
            case "clock":
                return tuple(self._t)

    def _alive_s(self, t: float) -> float:
        """Seconds that attempts lived until unix time `t`."""
        lived = sum(max(0.0, min(t, t if end is None else end) - begun) for begun, end in self._spans if begun < t)
        return lived if self._spans else t - self._origin

    def of_update(self, update: float) -> float | None:
        """Where `update` ended; None without a history or before its first bucket."""
        return _between(self.updates, update, self.places)

    def of_timesteps(self, timesteps: float) -> float | None:
        """Where the run had done `timesteps`; None without a history or before its first bucket."""
        return _between(self._timesteps, timesteps, self.places)

    def said_at(self, update: int, now: float) -> list[str]:
        """What says where `update` is: itself, timesteps, the time alive, and the time of day."""
        steps, t = (_between(self.updates, update, column) for column in (self._timesteps, self._t))
        if steps is None or t is None:
            return [f"update {numbers.count(update)}"]
        return [
            f"update {numbers.count(update)}",
            f"{numbers.count(round(steps))} steps",
            f"after {numbers.duration(self._alive_s(t))}",
            numbers.clock(t, now) + time.strftime(":%S", time.localtime(t)),
        ]

    def bucket(self, update: int) -> int | None:
        """The index of the bucket that holds `update`."""
        at = bisect_left(self.updates, update)
        return at if at < len(self.updates) else None


def _between(marks: Sequence[int], mark: float, values: Sequence[float]) -> float | None:
    """The value at `mark`, interpolated between two marks; what lies after the last one stands with it."""
    after = bisect_left(marks, mark)
    if after >= len(marks):
        return values[-1] if marks else None
    if marks[after] == mark:
        return values[after]
    if after == 0:
        return None
    share = (mark - marks[after - 1]) / (marks[after] - marks[after - 1])
    return values[after - 1] + share * (values[after] - values[after - 1])


def _update(place: float) -> str:
    return numbers.count(int(place))


def ticks_over(over: Over, low: float, high: float, most: int) -> list[tuple[float, str]]:
    """At most `most` round places from `low` to `high` of that axis, with their words."""
    if over in ("timesteps", "updates"):
        places = [place for place in steps_between(low, high, most) if place >= 0 and place == int(place)]
        say = numbers.compact if over == "timesteps" else _update
        return [(place, say(place)) for place in places]
    offset = float(time.localtime(high).tm_gmtoff) if over == "clock" else 0.0
    days = 1 + int((high - low) / _NICE_S[-1] / max(1, most))
    every = next((nice for nice in _NICE_S if (high - low) / nice <= most), _NICE_S[-1] * days)
    first = -int(-(low + offset) // every)
    places = [float(at * every) - offset for at in range(first, int((high + offset) // every) + 1)]
    return [(place, _time(over, place, high, every)) for place in places[:most]]


def _time(over: Over, place: float, high: float, every: float) -> str:
    if over == "run time":
        return numbers.duration(place) if place else "0"
    if every < 60:
        return time.strftime("%H:%M:%S", time.localtime(place))
    return numbers.clock(place, high)
