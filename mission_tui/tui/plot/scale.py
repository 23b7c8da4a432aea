"""Values as places on an axis, linear, logarithmic or symmetric-logarithmic, and a run's updates, steps and moments as
places on another.

A ruler turns updates, timesteps and moments into places on its axis by the buckets of one history.
"""

from __future__ import annotations

import math
import sys
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct, structs

from mission_tui.ipc.replies import AttemptView, HistoryReply
from mission_tui.present import numbers
from mission_tui.tui.state.preferences import AxisScale, Over

_HEADROOM = 0.04
_LEAST_SPAN = 0.05
"""Of the greatest size on the axis."""
_STEPS = 8
_GOAL_SHARE = 0.25
"""Of the axis that values keep, or the goal is not on it."""
_LEAST_DECADES = 0.02
"""Of room on a logarithmic axis, so that equal values have a height."""
_DECADES = 4
"""Of a symmetric axis on either side: below them values are as good as zero."""
_POWERS = sys.float_info.max_10_exp + 1
_WORD = 7
_FINE = 1e-4
_LARGE = 1e6
_MOST = sys.float_info.max
_STEP_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_NICE_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)


class Scale(Struct, frozen=True):
    """`share` of a value is 0 at `low` and 1 at `high`. On a logarithmic scale both are positive; a symmetric one is
    about linear from `-linear_within` to `linear_within`, and logarithmic on both sides of it.
    """

    low: float
    high: float
    kind: AxisScale = "linear"
    linear_within: float = 1.0

    def share(self, value: float) -> float | None:
        """How far up `value` lies; None where the scale has no place for it."""
        if not math.isfinite(value) or (self.kind == "log" and value <= 0):
            return None
        low, high = self._bent(self.low), self._bent(self.high)
        if not math.isfinite(high - low):
            return (value / 2 - low / 2) / (high / 2 - low / 2)
        return (self._bent(value) - low) / (high - low)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """At most about `most` round values within the scale, each with its words."""
        if most < 1:
            return []
        decades = {"log": self._decades, "symlog": self._signed_decades}.get(self.kind)
        if decades is not None and len(values := decades(most)) > 1:
            return [(value, numbers.reading(value)) for value in values]
        values = steps_between(self.low, self.high, most)
        step = min((after - before for before, after in pairwise(values)), default=0.0)
        return [(value, _words(value, step)) for value in values if self.share(value) is not None]

    def _bent(self, value: float) -> float:
        match self.kind:
            case "log":
                return math.log10(value)
            case "symlog":
                return math.copysign(math.log10(1.0 + abs(value) / self.linear_within), value)
            case _:
                return value

    def _straight(self, place: float) -> float:
        """The value of a symmetric scale whose logarithm is `place`."""
        return math.copysign(min((10 ** abs(place) - 1.0) * self.linear_within, _MOST), place)

    def _signed_decades(self, most: int) -> list[float]:
        """Zero and powers of ten on both sides of it, as many as may be."""
        first = round(math.log10(self.linear_within))
        # From the greatest power within the scale on down: of few, those that are far apart say most.
        last = max(first, math.floor(math.log10(max(abs(self.low), abs(self.high), self.linear_within)) + 1e-9))
        for every in range(1, last - first + 2):
            sizes = [min(10.0**power, _MOST) for power in range(last, first - 1, -every) if power < _POWERS]
            values = [*(-size for size in sizes), 0.0, *reversed(sizes)]
            inside = [value for value in values if self.low <= value <= self.high]
            if len(inside) <= most:
                return inside
        return []

    def _decades(self, most: int) -> list[float]:
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        if last - first >= most:
            every = math.ceil((last - first + 1) / most)
            return [10.0**power for power in range(first, last + 1, every)]
        for leaves in ((1, 2, 5), (1, 3), (1,)):
            values = [leaf * 10.0**power for power in range(first - 1, last + 1) for leaf in leaves]
            inside = [value for value in values if self.low <= value <= min(self.high * (1 + 1e-9), _MOST)]
            if len(inside) <= most:
                return inside
        return []


def scale_of(values: Iterable[float], kind: AxisScale = "linear", goal: float | None = None) -> Scale | None:
    """From the least to the greatest of `values`, with a little room; None when there is nothing to place.

    A linear one spans a share of the values' size at least, so that the noise of a steady curve stays low, and reaches
    to the `goal` where the values keep a good part of it.
    """
    known = [value for value in values if math.isfinite(value) and (value > 0 or kind != "log")]
    if not known:
        return None
    low, high = min(known), max(known)
    if kind == "symlog":
        return _symmetric(known)
    if kind == "log":
        room = max(_HEADROOM * (math.log10(high) - math.log10(low)), _LEAST_DECADES)
        # The least numbers there are leave no room below or above them, and their neighbours have the same logarithm.
        bottom = min(low, max(10 ** (math.log10(low) - room), sys.float_info.min))
        return Scale(bottom, max(min(high * 10**room, _MOST), sys.float_info.min), "log")
    whole = max(abs(low), abs(high))
    if goal is not None and math.isfinite(goal):
        least, most = min(low, goal), max(high, goal)
        if high - low >= _GOAL_SHARE * (most - least) or low <= goal <= high:
            low, high = least, most
        whole = max(whole, abs(goal))
    if 0 < high - low < _LEAST_SPAN * whole < _MOST:
        middle = low / 2 + high / 2
        low, high = middle - _LEAST_SPAN * whole / 2, middle + _LEAST_SPAN * whole / 2
    room = _HEADROOM * (high - low) or 0.5 * abs(high) or 1.0
    return Scale(max(low - room, -_MOST), min(high + room, _MOST))


def steady(scale: Scale) -> Scale:
    """A little more than `scale`, with round ends: a small chart that grows is drawn anew only when it leaves them."""
    span = scale.high - scale.low
    if scale.kind != "linear" or not sys.float_info.min < span < math.inf:
        return scale
    step = 2.0 ** math.floor(math.log2(span / _STEPS))
    return Scale(math.floor(scale.low / step) * step, math.ceil(scale.high / step) * step)


def steady_reach(low: float, high: float) -> tuple[float, float]:
    """From `low` a little farther than `high`, in steps of a quarter at most, for the same reason."""
    if not 0 < high - low < math.inf:
        return low, high
    step = 2.0 ** math.floor(math.log2(high - low)) / 4
    return low, low + math.ceil((high - low) / step) * step


def _symmetric(values: Sequence[float]) -> Scale:
    """Linear up to the least size among `values` but zero, though over no more than `_DECADES` below the greatest."""
    sizes = [abs(value) for value in values if value] or [1.0]
    power = math.floor(math.log10(max(min(sizes), max(sizes) / 10**_DECADES, sys.float_info.min)))
    bare = Scale(min(values), max(values), "symlog", max(10.0**power, sys.float_info.min))
    low, high = bare._bent(bare.low), bare._bent(bare.high)
    room = max(_HEADROOM * (high - low), _LEAST_DECADES)
    return structs.replace(bare, low=bare._straight(low - room), high=bare._straight(high + room))


def steps_between(low: float, high: float, most: int) -> list[float]:
    """At most `most` multiples of 1, 2 or 5 times a power of ten from `low` to `high`."""
    span = high - low
    if span < sys.float_info.min or not math.isfinite(span) or most < 1:
        return []
    power = 10.0 ** math.floor(math.log10(span / most))
    for leaf in (1, 2, 5, 10, 20, 50):
        step = leaf * power
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            return [at * step for at in range(first, last + 1)]
    return []


def _words(value: float, step: float) -> str:
    """As many digits as tell neighbours apart, and no more."""
    if value == 0 or abs(value) < step * 1e-6:
        return "0"
    if step <= 0 or abs(value) >= _LARGE or (step < _FINE and abs(value) < 1):
        return numbers.reading(value)
    digits = max(0, math.ceil(-math.log10(step) - 1e-9))
    words = f"{value:,.{digits}f}"
    return words if len(words) <= _WORD else numbers.reading(value)


class Ruler:
    """`places` are the ends of the history's buckets on the axis in their order, `updates` the last one of each.

    Run time leaves out what lay between two attempts; attempts that are not known count as one. Where the machine's
    clock was set back, what came before that is shown as if it had ended there.
    """

    def __init__(self, history: HistoryReply, over: Over, attempts: Sequence[AttemptView] = ()) -> None:
        self.over = over
        self.updates, self._timesteps, self._t = history.updates, history.timesteps, _rising(history.t)
        self._spans = [(it.started_t, it.ended_t) for it in attempts if it.started_t is not None]
        if self._spans and self._t:
            begun, ended = self._spans[0]
            self._spans[0] = min(begun, self._t[0]), ended
        self._origin = min([*(begun for begun, _ in self._spans), *self._t[:1]], default=0.0)
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

    def shifted(self, begin: float) -> tuple[float, ...]:
        """All places as if the first row had ended at `begin`, on an axis of the time of day; else as they are."""
        if self.over != "clock" or not self.places:
            return self.places
        return tuple(place - self.places[0] + begin for place in self.places)

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


def _rising(moments: Sequence[float]) -> tuple[float, ...]:
    """`moments` in the order of what happened, of which none is later than the next."""
    rising: list[float] = []
    moved_s, after = 0.0, math.inf
    for t in reversed(moments):
        moved_s = min(moved_s, after - t)
        after = min(after, t + moved_s)
        rising.append(after)
    return tuple(reversed(rising))


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


def _roundness(place: float) -> float:
    """The greatest power of ten that the whole number `place` is a multiple of."""
    words = f"{place:.0f}"
    return 10.0 ** (len(words) - len(words.rstrip("0"))) if place else 1.0


def _steps(place: float, step: float) -> str:
    """As `compact`, with as many digits as tell neighbours `step` apart: `10.02M`."""
    unit, suffix = next(((unit, suffix) for unit, suffix in _STEP_UNITS if place >= unit), (1.0, ""))
    digits = math.ceil(math.log10(unit / step) - 1e-9)
    if suffix and digits > 0:
        return f"{place / unit:.{digits}f}".rstrip("0").rstrip(".") + suffix
    return numbers.compact(place)


def ticks_over(over: Over, low: float, high: float, most: int) -> list[tuple[float, str]]:
    """At most `most` round places from `low` to `high` of that axis, with their words."""
    if over in ("timesteps", "updates"):
        places = [place for place in steps_between(low, high, most) if place >= 0 and place == int(place)]
        if over == "updates":
            return [(place, numbers.count(int(place))) for place in places]
        step = min((after - before for before, after in pairwise(places)), default=0.0)
        return [(place, _steps(place, step or _roundness(place))) for place in places]
    offset = float(time.localtime(high).tm_gmtoff) if over == "clock" else 0.0
    days = 1 + int((high - low) / _NICE_S[-1] / max(1, most))
    every = next((nice for nice in _NICE_S if (high - low) / nice <= most), _NICE_S[-1] * days)
    first = -int(-(low + offset) // every)
    places = [float(at * every) - offset for at in range(first, int((high + offset) // every) + 1)]
    return [(place, _time(over, place, high, every)) for place in places[:most]]


def _run_time(place: float, every: float) -> str:
    """As `duration`, down to the unit that tells neighbours `every` seconds apart: `1h00:05`, `1d02:30`."""
    words, whole = numbers.duration(place), round(place)
    if whole >= 86_400 and every < 3600:
        words += f":{whole % 3600 // 60:02d}"
    if whole >= 3600 and every < 60:
        words += f":{whole % 60:02d}"
    return words


def _time(over: Over, place: float, high: float, every: float) -> str:
    if over == "run time":
        return _run_time(place, every) if place else "0"
    if every < 60:
        return time.strftime("%H:%M:%S", time.localtime(place))
    return numbers.clock(place, high)
