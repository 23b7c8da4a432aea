"""Which rounds of a bench count: those during which other work took least of the machine, where there are enough.

Load that stays is everybody's and changes no ratio; load that comes and goes makes one side of a round slower than it
is. So a round is loaded where one of its runs met more than the calmest run of all did, and is run again. Which rounds
count is decided by their load alone, never by their speeds.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["MORE_PERCENT", "MOST_TIMES", "is_enough", "quiet_rounds"]

MORE_PERCENT = 5.0
"""Beyond the calmest run's, of all cores."""
MOST_TIMES = 2
"""So many times the rounds that were asked for are run at most."""

Loads = Sequence[Sequence[float | None]]
"""For each round what other work took during each of its runs, in percent of all cores; None is not known."""


def is_enough(loads: Loads, repeats: int) -> bool:
    """Whether `repeats` rounds were calm, or `MOST_TIMES` as many were run."""
    return len(_calm(loads)) >= repeats or len(loads) >= MOST_TIMES * repeats


def quiet_rounds(loads: Loads, repeats: int) -> tuple[int, ...]:
    """The places of the rounds that count: the calm ones, or all where even so there are not `repeats` of those.

    Of many loaded rounds all together say more than the few least loaded.
    """
    calm = _calm(loads)
    return calm if len(calm) >= repeats else tuple(range(len(loads)))


def _calm(loads: Loads) -> tuple[int, ...]:
    known = [[load for load in each if load is not None] for each in loads]
    limit = min((load for each in known for load in each), default=0.0) + MORE_PERCENT
    return tuple(place for place, each in enumerate(known) if max(each, default=0.0) <= limit)
