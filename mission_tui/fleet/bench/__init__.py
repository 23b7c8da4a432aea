"""Timed runs: in which order they take turns, what is measured of each, and whether one preset is faster. Pure."""

from __future__ import annotations

from mission_tui.fleet.bench.ratio import (
    MARGIN,
    MOST_TIMES,
    Pace,
    Ratio,
    Word,
    is_enough,
    noise_of,
    order_of,
    pace_of,
    quiet_rounds,
    ratio_of,
)
from mission_tui.fleet.bench.repeat import Load, Repeat, Side, Timing, incomparable, timing_of, work_of

__all__ = [
    "MARGIN",
    "MOST_TIMES",
    "Load",
    "Pace",
    "Ratio",
    "Repeat",
    "Side",
    "Timing",
    "Word",
    "incomparable",
    "is_enough",
    "noise_of",
    "order_of",
    "pace_of",
    "quiet_rounds",
    "ratio_of",
    "timing_of",
    "work_of",
]
