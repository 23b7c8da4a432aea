"""Values as places on an axis: straight or logarithmic, with the round numbers that are written beside it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from itertools import pairwise

from msgspec import Struct

from mission_tui.tui.drawing import numbers

__all__ = ["Scale", "scale_of", "steps_between"]

_HEADROOM = 0.04
_LEAST_DECADES = 0.02
"""Of room on a logarithmic axis, so that equal values have a height."""
_WORD = 7
_FINE = 1e-4
_LARGE = 1e6
_MOST = sys.float_info.max


class Scale(Struct, frozen=True):
    """`share` of a value is 0 at `low` and 1 at `high`. On a logarithmic scale both are positive."""

    low: float
    high: float
    log: bool = False

    def share(self, value: float) -> float | None:
        """How far up `value` lies; None where the scale has no place for it."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return None
        low, high = self._bent(self.low), self._bent(self.high)
        if not math.isfinite(high - low):
            return (value / 2 - low / 2) / (high / 2 - low / 2)
        return (self._bent(value) - low) / (high - low)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """At most about `most` round values within the scale, each with its words."""
        if most < 1:
            return []
        if self.log and len(decades := self._decades(most)) > 1:
            return [(value, numbers.reading(value)) for value in decades]
        values = steps_between(self.low, self.high, most)
        step = min((after - before for before, after in pairwise(values)), default=0.0)
        return [(value, _words(value, step)) for value in values if self.share(value) is not None]

    def _bent(self, value: float) -> float:
        return math.log10(value) if self.log else value

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


def scale_of(values: Iterable[float], *, log: bool) -> Scale | None:
    """From the least to the greatest of `values`, with a little room; None when there is nothing to place."""
    known = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    if not known:
        return None
    low, high = min(known), max(known)
    if log:
        room = max(_HEADROOM * (math.log10(high) - math.log10(low)), _LEAST_DECADES)
        # The least numbers there are leave no room below or above them, and their neighbours have the same logarithm.
        bottom = min(low, max(10 ** (math.log10(low) - room), sys.float_info.min))
        return Scale(bottom, max(min(high * 10**room, _MOST), sys.float_info.min), log=True)
    room = _HEADROOM * (high - low) or 0.5 * abs(high) or 1.0
    return Scale(max(low - room, -_MOST), min(high + room, _MOST))


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
