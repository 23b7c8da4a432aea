"""One of the runs that are compared, with everything that is read of it beforehand: its traces are of one metric over
its timesteps and over the seconds it trained, with only the rows that count.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import RETURN, EvaluationDone, MetricRecord, UpdateDone, counted_records, number
from mission_tui.fleet.events.provenance import Provenance
from mission_tui.fleet.history.series import OWN
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.views.snapshot import RunView

__all__ = ["Axis", "Side", "Trace", "level", "mean_level", "trace_of"]

EVALUATION = "eval/mean_reward"

Axis = Literal["step", "time"]


@dataclass(frozen=True, slots=True)
class Side:
    """`spec` is the newest attempt's, with what was set while it trained; `effective` what its model said that it uses.

    `findings` counts every incident. `peak_rss_bytes` is the trainer's, of attempts that have ended. `threshold` is the
    return at which the environment's registration calls it solved; None where that says nothing.
    """

    view: RunView
    spec: Spec
    trace: Trace
    findings: Mapping[Severity, int] = field(default_factory=dict)
    peak_rss_bytes: int | None = None
    effective: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance | None = None
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """`values` (finite ones only) at `timesteps` and at `seconds` in rollouts and updates; all three equally long.

    `paces` are steps per second of the updates that tell them. `updates`, `end_timesteps` and `end_s` are where the run
    stands; `end_s` 0 after updates: nobody timed them.
    """

    timesteps: Sequence[int] = ()
    seconds: Sequence[float] = ()
    values: Sequence[float] = ()
    paces: Sequence[float] = ()
    updates: int = 0
    end_timesteps: int | None = None
    end_s: float = 0.0
    tags: frozenset[str] = field(default_factory=frozenset)

    def axis(self, by: Axis) -> Sequence[float]:
        """Where the values are: timesteps, or seconds."""
        return self.timesteps if by == "step" else self.seconds


def trace_of(records: Iterable[MetricRecord], tag: str = RETURN) -> Trace:
    """The trace of `tag`, one of SB3's or ours. Rows that a later attempt took back do not count."""
    timesteps: list[int] = []
    seconds: list[float] = []
    values: list[float] = []
    paces: list[float] = []
    tags: set[str] = set()
    done_s, last = 0.0, None
    for record in counted_records(records)[0]:
        if not isinstance(record, UpdateDone | EvaluationDone):
            continue
        value = None
        if isinstance(record, UpdateDone):
            if last is not None and record.update <= last.update:
                continue
            before = last.timesteps if last is not None else 0
            last = record
            done_s += record.rollout_s + record.update_s or _at_its_pace(record, before)
            if record.steps_per_s > 0.0:
                paces.append(record.steps_per_s)
            tags.update(record.metrics)
            value = getattr(record, tag) if tag in OWN else number(record.metrics.get(tag))
        else:
            tags.add(EVALUATION)
            value = number(record.mean) if tag == EVALUATION else None
        # A script may count its steps as it likes; what goes back on the axis cannot be drawn over it.
        onward = not timesteps or record.timesteps >= timesteps[-1]
        if value is not None and math.isfinite(value) and onward:
            timesteps.append(record.timesteps)
            seconds.append(done_s)
            values.append(value)
    updates, end = (last.update, last.timesteps) if last is not None else (0, None)
    return Trace(timesteps, seconds, values, paces, updates, end, done_s, frozenset(tags))


def _at_its_pace(update: UpdateDone, before: int) -> float:
    """Seconds of an update whose phases nobody timed, such as an imported one's; 0 where its speed is unknown too."""
    return max(0, update.timesteps - before) / update.steps_per_s if update.steps_per_s > 0.0 else 0.0


def level(places: Sequence[float], values: Sequence[float], place: float) -> float:
    """The value at `place`, on the straight line between its neighbours; `place` must lie within `places`."""
    after = bisect_left(places, place)
    if places[after] == place or after == 0:
        return values[after]
    before = after - 1
    share = (place - places[before]) / (places[after] - places[before])
    return values[before] + share * (values[after] - values[before])


def mean_level(places: Sequence[float], values: Sequence[float], low: float, high: float) -> float:
    """The area under the curve between two places, divided by their distance: a mean in the values' own unit."""
    if high <= low:
        return level(places, values, low)
    within = range(bisect_right(places, low), bisect_left(places, high))
    at = [low, *(places[index] for index in within), high]
    there = [level(places, values, low), *(values[index] for index in within), level(places, values, high)]
    pieces = ((at[i + 1] - at[i]) * (there[i + 1] + there[i]) / 2 for i in range(len(at) - 1))
    return math.fsum(pieces) / (high - low)
