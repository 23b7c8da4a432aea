"""Runs beside each other: what was set otherwise, what came of it, and how sure one can be. Pure."""

from __future__ import annotations

from mission_tui.fleet.compare.comparison import (
    MOST,
    AxisMark,
    Cohort,
    Compared,
    Comparison,
    Contrast,
    Drawing,
    Ranked,
    Spread,
    compare,
    drawing_of,
    in_cohorts,
    letter,
)
from mission_tui.fleet.compare.differing import Row, setting_words
from mission_tui.fleet.compare.results import MEASURES, Axis, Curve, Edges, Result, Side, Trace, trace_of
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.specs.flat_settings import value_word

__all__ = [
    "MEASURES",
    "MOST",
    "RETURN",
    "Axis",
    "AxisMark",
    "Cohort",
    "Compared",
    "Comparison",
    "Contrast",
    "Curve",
    "Drawing",
    "Edges",
    "Ranked",
    "Result",
    "Row",
    "Side",
    "Spread",
    "Trace",
    "compare",
    "drawing_of",
    "in_cohorts",
    "letter",
    "setting_words",
    "trace_of",
    "value_word",
]
