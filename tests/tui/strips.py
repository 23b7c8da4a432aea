"""Strips as the supervisor answers them: GPUs that burst while runs are in their updates."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from mission_tui.fleet.strip import Cell, GpuTrack, Lane, Span, Strip
from tests.tui.fleets import GPU, LIVE, NOW

__all__ = ["a_strip", "cells", "phases"]


def phases(since: float, until: float, rollout_s: float = 1.7, update_s: float = 0.3) -> tuple[Span, ...]:
    """Rollouts and updates in turn; the first begins at a whole multiple of both."""
    period = rollout_s + update_s
    first, count = since // period * period, math.ceil((until - since) / period) + 1

    def spans() -> Iterator[Span]:
        for begun in (first + at * period for at in range(count)):
            yield Span("rollout", max(since, begun), min(until, begun + rollout_s))
            yield Span("update", max(since, begun + rollout_s), min(until, begun + period))

    return tuple(span for span in spans() if span.since < span.until)


def cells(spans: Sequence[Span], since: float, until: float, width: float = 0.25) -> tuple[Cell, ...]:
    """A GPU that is busy in updates alone, in cells of `width` aligned to it."""
    updates = [span for span in spans if span.phase == "update"]
    ends = [span.until for span in updates]

    def one(t: float) -> Cell:
        within = updates[bisect_right(ends, t) : bisect_right(ends, t + width) + 1]
        busy = sum(max(0.0, min(span.until, t + width) - max(span.since, t)) for span in within)
        mean = min(100.0, 100 * busy / width)
        return Cell(t, 0.0 if mean < 100 else 100.0, mean, 100.0 if mean > 0 else 0.0, width, 5)

    first, count = since // width * width, round((until - since) / width)
    return tuple(one(first + at * width) for at in range(count))


def a_strip(seconds: float, until: float = NOW, *, gpu: bool = True, cpu: bool = True) -> Strip:
    """The last `seconds`: one GPU, the processors, and the live runs of `LIVE`, the last of which is paused."""
    since = until - seconds
    width = next(width for width in (0.25, 1.0, 10.0, 60.0, 120.0) if seconds / width < 1300)
    period = max(2.0, seconds / 60)
    burst = phases(since, until, 0.85 * period, 0.15 * period)
    slow = phases(since, until, seconds / 8, seconds / 16)
    tracks = (GpuTrack(uuid=GPU.uuid, name=GPU.name, busy=cells(burst, since, until, width)),)
    steady = tuple(Cell(since + at * width, 60.0, 70.0, 80.0, width) for at in range(round(seconds / width)))
    lanes = (
        Lane(run=LIVE[0].id, name=LIVE[0].name, spans=burst),
        Lane(run=LIVE[1].id, name=LIVE[1].name, spans=slow),
        Lane(run=LIVE[2].id, name=LIVE[2].name, spans=(Span("paused", since + seconds / 2, until),)),
    )
    return Strip(since=since, until=until, gpus=tracks if gpu else (), cpu=steady if cpu else (), lanes=lanes)
