"""Summed steps per second of several runs in equal cells of time, from each run's own updates.

Runs on one machine take from each other, so their noise is not independent: summing first and taking the spread of the
sums is honest where adding up the spread of each is not.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mission_tui.fleet.marginal_gain.steady_periods import SteadyPeriod

__all__ = ["Span", "cell_s", "summed"]

LEAST_CELL_S = 2.0
"""No cell is shorter, nor than an update of the slowest run: within one nobody knows where its steps lie."""
LEAST_COVER = 0.5


@dataclass(frozen=True, slots=True)
class Span:
    """One update, from `begin` to `end` (unix s), at `steps_per_s`."""

    begin: float
    end: float
    steps_per_s: float


def cell_s(spans: Mapping[str, Sequence[Span]]) -> float:
    """Seconds of a cell for runs whose updates took as long as `spans` did."""
    typical = [statistics.median(span.end - span.begin for span in each) for each in spans.values() if each]
    return max(LEAST_CELL_S, max(typical, default=0.0))


def summed(
    spans: Mapping[str, Sequence[Span]], period: SteadyPeriod, seconds: float, most: int, *, backwards: bool = False
) -> list[float]:
    """Summed steps per second of all runs of `spans` in the first `most` cells of the stretch, `seconds` long each.

    `backwards`: in the last ones, counted from its end. Only updates that lie wholly in the stretch count, and only
    cells of which every run was seen updating for half the time or more: evaluations and pauses are left out.
    """
    count = min(most, int((period.end - period.begin) / seconds))
    begin = period.end - count * seconds if backwards else period.begin
    rates = [_rates(each, period, begin, seconds, count) for each in spans.values()]
    known = [cell for cell in zip(*rates, strict=True) if None not in cell]
    return [sum(rate for rate in cell if rate is not None) for cell in known]


def _rates(spans: Sequence[Span], period: SteadyPeriod, begin: float, seconds: float, count: int) -> list[float | None]:
    covered, steps = [0.0] * count, [0.0] * count
    for span in spans:
        if span.begin < period.begin or span.end > period.end:
            continue
        first, last = int((span.begin - begin) // seconds), int((span.end - begin) // seconds)
        for cell in range(max(0, first), min(count - 1, last) + 1):
            left = begin + cell * seconds
            shared = min(span.end, left + seconds) - max(span.begin, left)
            covered[cell] += shared
            steps[cell] += shared * span.steps_per_s
    return [
        done / cover if cover >= LEAST_COVER * seconds else None for done, cover in zip(steps, covered, strict=True)
    ]
