"""From a branch's rows to what it came to: the mean return of the episodes in the second half of its budget.

The first half is left out because both arms begin at the same policy: there they can hardly differ. A branch that was
resumed beyond its budget counts up to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from mission_tui.fleet.events.metrics import RETURN, MetricRecord, UpdateDone, counted_records, number
from mission_tui.fleet.events.trials import TrialPlan


class BranchReading(Struct, frozen=True):
    """`mean` return over `episodes`, None where none ended; `returns` of each row, to see whether two are the same.

    `complete`: it came to the end of its budget.
    """

    mean: float | None
    episodes: int
    returns: tuple[tuple[float, ...], ...]
    complete: bool


def read_branch(plan: TrialPlan, records: Iterable[MetricRecord]) -> BranchReading:
    """What a branch of `plan` came to, by its `metrics.jsonl`. Returns that are not finite are left out."""
    kept, _ = counted_records(records)
    rows = [record for record in kept if isinstance(record, UpdateDone) and record.timesteps > plan.from_timesteps]
    end = next((at for at, row in enumerate(rows, 1) if row.timesteps >= plan.until_timesteps), None)
    rows = rows[:end]
    half = (plan.from_timesteps + plan.until_timesteps) // 2
    window = [row for row in rows if row.timesteps > half]
    total, episodes = 0.0, 0
    for row in window:
        values = _finite(row)
        if values:
            # At most 256 are sampled; the mean of the sample stands for all that ended.
            ended = max(row.episodes.n, len(values))
            total += math.fsum(values) / len(values) * ended
            episodes += ended
    mean = total / episodes if episodes else None
    return BranchReading(mean, episodes, tuple(_finite(row) for row in rows), end is not None)


def _finite(row: UpdateDone) -> tuple[float, ...]:
    values = (number(value) for value in row.episodes.r)
    return tuple(value for value in values if value is not None and math.isfinite(value))


def range_before(plan: TrialPlan, records: Iterable[MetricRecord]) -> tuple[float, float] | None:
    """The lowest and highest mean return that the run reported up to the checkpoint, or at all where branches begin at
    the start; None where it reported none.
    """
    rows = [record for record in counted_records(records)[0] if isinstance(record, UpdateDone)]
    means = _means(row for row in rows if not plan.checkpoint or row.update <= plan.from_update)
    return (min(means), max(means)) if means else None


def _means(rows: Iterable[UpdateDone]) -> Sequence[float]:
    values = (number(row.metrics.get(RETURN)) for row in rows)
    return [value for value in values if value is not None and math.isfinite(value)]
