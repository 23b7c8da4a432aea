"""Timed runs: in which order they take turns, what is measured of each, and whether one preset is faster. Pure."""

from __future__ import annotations

from mission_tui.fleet.bench.comparable import incomparable, work_of
from mission_tui.fleet.bench.quiet_rounds import MOST_TIMES, is_enough, quiet_rounds
from mission_tui.fleet.bench.ratio import MARGIN, Pace, Ratio, Word, noise_of, pace_of, ratio_of
from mission_tui.fleet.bench.repeat import Load, Repeat, Side, Timing, timing_of
from mission_tui.fleet.bench.run_order import order_of

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
