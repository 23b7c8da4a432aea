"""Curves to lay over each other: each run's own, thinned, and of several seeds the median and the band."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from mission_tui.fleet.compare.results import shared_span
from mission_tui.fleet.compare.trace import Axis, Trace, level

__all__ = ["POINTS", "Curve", "band_of", "curve_of"]

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
