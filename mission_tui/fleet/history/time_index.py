"""What was known at a moment: how far a file of lines had come by then, and what a trainer did between two of its rows.

Moments are unix seconds. A line was written no later than the lines after it, whatever a clock that was set back says.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable

from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.events.observations import PhaseSeen

__all__ = ["TimeIndex", "phase_before"]


class TimeIndex:
    """When each line of a file was written, from the `t` of its lines in their order."""

    def __init__(self, times: Iterable[float]) -> None:
        rising = array("d", times)
        for at in range(len(rising) - 2, -1, -1):
            rising[at] = min(rising[at], rising[at + 1])
        self._t = rising

    def count_until(self, moment: float) -> int:
        """How many lines had been written."""
        return bisect_right(self._t, moment)


def phase_before(row: UpdateDone, moment: float) -> PhaseSeen:
    """The phase at `moment` of the update that ends with `row`, the first row after it; None before its rollout."""
    update_t = row.t - row.update_s
    rollout_t = update_t - row.rollout_s
    if moment >= update_t:
        return PhaseSeen("update", update_t)
    return PhaseSeen("rollout", rollout_t) if moment >= rollout_t else PhaseSeen(None, moment)
