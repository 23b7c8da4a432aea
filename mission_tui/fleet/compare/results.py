"""What came of one run, in the numbers that runs are compared by; and curves to lay over each other: each run's own,
thinned, and of several seeds the median and the band.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from mission_tui.fleet.compare.side import Axis, Side, Trace, level, mean_level
from mission_tui.fleet.events.findings import Severity

__all__ = ["MEASURES", "Curve", "Result", "band_of", "curve_of", "result_of", "shared_span"]

MEASURES = ("best", "final", "area", "threshold_timesteps", "threshold_s", "steps_per_s", "peak_rss_bytes")
"""What of a result is summed up over seeds."""


class Result(Struct, frozen=True, kw_only=True):
    """`final` is the metric at its last row, `best` its highest, first reached at `best_timesteps`.

    `area` is the area under the curve over what all runs have of the axis, divided by its length, so it is a mean.
    `threshold_timesteps` and `threshold_s` (seconds of training) are where the metric first was at the threshold; None
    for a run that never was. Times and `steps_per_s`, the median over updates, are None where nobody timed them.
    `peak_rss_bytes` is the most memory the trainer had in RAM in attempts that have ended. `findings` counts all
    incidents by severity.
    """

    updates: int
    timesteps: int | None
    trained_s: float | None
    best: float | None
    best_timesteps: int | None
    final: float | None
    area: float | None
    threshold_timesteps: int | None
    threshold_s: float | None
    steps_per_s: float | None
    peak_rss_bytes: int | None
    findings: dict[Severity, int]


def shared_span(traces: Sequence[Trace], by: Axis) -> tuple[float, float] | None:
    """The part of the axis that every trace covers; None where there is none."""
    axes = [trace.axis(by) for trace in traces]
    if not axes or not all(axes):
        return None
    low, high = max(axis[0] for axis in axes), min(axis[-1] for axis in axes)
    return (low, high) if high > low else None


def result_of(side: Side, by: Axis, span: tuple[float, float] | None, threshold: float | None) -> Result:
    """The numbers of one run; None where its rows do not say."""
    trace = side.trace
    values, clocked = trace.values, trace.end_s > 0.0 or not trace.updates
    best = max(range(len(values)), key=values.__getitem__, default=None)
    reached = next((at for at, value in enumerate(values) if threshold is not None and value >= threshold), None)
    return Result(
        updates=trace.updates,
        timesteps=trace.end_timesteps,
        trained_s=trace.end_s if clocked else None,
        best=None if best is None else values[best],
        best_timesteps=None if best is None else trace.timesteps[best],
        final=values[-1] if values else None,
        area=mean_level(trace.axis(by), values, *span) if span is not None else None,
        threshold_timesteps=None if reached is None else trace.timesteps[reached],
        threshold_s=None if reached is None or not clocked else trace.seconds[reached],
        steps_per_s=statistics.median(trace.paces) if trace.paces else None,
        peak_rss_bytes=side.peak_rss_bytes,
        findings=dict(side.findings),
    )


POINTS = 300


class Curve(Struct, frozen=True):
    """`y` over `x` (timesteps, or seconds of training); `low` and `high` are the band, empty for a single run."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


def curve_of(name: str, trace: Trace, by: Axis, points: int = POINTS) -> Curve:
    """At most `points` points, each the mean of a bucket of rows at the bucket's end."""
    axis, values = trace.axis(by), trace.values
    buckets = min(points, len(values))
    edges = [bucket * len(values) // buckets for bucket in range(buckets + 1)] if buckets else [0]
    spans = list(pairwise(edges))
    return Curve(
        name,
        tuple(_short(axis[end - 1]) for _, end in spans),
        tuple(_short(statistics.fmean(values[start:end])) for start, end in spans),
    )


def band_of(name: str, traces: Sequence[Trace], by: Axis, points: int = POINTS) -> Curve | None:
    """Median, least and greatest of several runs on the part of the axis that all have; None where there is none."""
    span = shared_span(traces, by)
    if len(traces) < 2 or span is None:
        return None
    low, high = span
    places = [low + (high - low) * point / (points - 1) for point in range(points - 1)] + [high]
    columns = [[level(trace.axis(by), trace.values, place) for trace in traces] for place in places]
    return Curve(
        name,
        tuple(_short(place) for place in places),
        tuple(_short(statistics.median(column)) for column in columns),
        tuple(_short(min(column)) for column in columns),
        tuple(_short(max(column)) for column in columns),
    )


def _short(value: float) -> float:
    """Seven digits: more than a picture shows, and a third of the bytes."""
    return float(f"{value:.7g}") if math.isfinite(value) else value
