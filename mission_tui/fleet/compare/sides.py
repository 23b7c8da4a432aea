"""The sides of a comparison on their way between machines: each says what there is to compare of its own runs, and they
are compared where somebody looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from mission_tui.fleet.compare.comparison import compare, in_cohorts
from mission_tui.fleet.compare.results import Axis, Side, Trace
from mission_tui.fleet.events.metrics import RETURN

MOST_ROWS = 4000
"""Of a longer trace the least and the greatest of each stretch travel: a line may carry ten kilobytes a second."""


def packed(side: Side) -> dict[str, Any]:
    """`side` in builtin values, its trace in at most `MOST_ROWS` rows."""
    facts: dict[str, Any] = msgspec.to_builtins(replace(side, trace=thinned(side.trace)))
    return facts


def unpacked(facts: dict[str, Any]) -> Side:
    """The side that was `packed`. Raises `ValueError` for what is none."""
    return msgspec.convert(facts, Side)


def compared(sides: Sequence[Side], by: Axis, threshold: float | None) -> dict[str, Any]:
    """The comparison of these in builtin values, seeds of one setting beside each other. Raises as `compare`."""
    found: dict[str, Any] = msgspec.to_builtins(compare(in_cohorts(sides), RETURN, by, threshold))
    return found


def thinned(trace: Trace, most: int = MOST_ROWS) -> Trace:
    """`trace` with at most `most` of its values: first, last, and of each stretch the least and the greatest."""
    values = trace.values
    if len(values) > most:
        stretches = max(1, most // 2 - 1)
        kept = {0, len(values) - 1}
        for at in range(stretches):
            stretch = range(at * len(values) // stretches, (at + 1) * len(values) // stretches)
            kept |= {min(stretch, key=values.__getitem__), max(stretch, key=values.__getitem__)}
        places = sorted(kept)
        trace = replace(
            trace,
            timesteps=[trace.timesteps[at] for at in places],
            seconds=[trace.seconds[at] for at in places],
            values=[values[at] for at in places],
        )
    every = -(-len(trace.paces) // most)
    return replace(trace, paces=trace.paces[::every]) if every > 1 else trace
