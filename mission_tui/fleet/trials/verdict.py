"""What branches came to, by their rows, and what two arms of them say: paired differences of mean returns, their
interval by Student's t, one word.

A branch counts by the mean return of the episodes in the second half of its budget: both arms begin at the same policy,
so in the first half they can hardly differ. One that was resumed beyond its budget counts up to it.

Both branches of a pair share checkpoint and seeds, so that what is luck for one is luck for the other, and settings
that change nothing make them the same to the last bit. Pairs differ in their seeds and are independent, however much
the updates within one branch are not; so the spread is that of the pairs, and three of them have to agree closely.
`docs/trying.md` says how often the word is wrong.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from msgspec import Struct

from mission_tui.fleet.events.metrics import RETURN, Metric, MetricRecord, UpdateDone, counted_records, number, spoken
from mission_tui.fleet.events.trials import ARMS, TrialPair, TrialPlan, TrialVerdict, TrialWord
from mission_tui.fleet.statistics.distributions import t_quantile
from mission_tui.fleet.statistics.intervals import LEVEL, student_interval
from mission_tui.fleet.trials.plan import LEAST_PAIRS, MOST_PAIRS


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


MARGIN = 0.10
"""A difference below this share of the run's range of returns is none that anybody would act on."""

FARTHEST = 20.0
"""Beyond so many times the budget a forecast of what would tell is worth nothing."""


class BranchEnd(Struct, frozen=True):
    """A branch that is over: its run, what was read of it, and how it ended. `diverged`: its numbers were no numbers
    any more, which is what its settings came to; any other `why` says nothing about them.
    """

    run: str
    reading: BranchReading
    diverged: bool = False
    why: str = ""


def judge_trial(
    plan: TrialPlan, pairs: Sequence[tuple[BranchEnd, BranchEnd]], before: tuple[float, float] | None
) -> TrialVerdict:
    """The verdict on `pairs` of control and advised. `before` are the lowest and highest mean return of the run."""
    worst, best = _range(pairs, before)
    told = [
        _pair(number, seed, ends, worst) for number, (seed, ends) in enumerate(zip(plan.seeds, pairs, strict=True), 1)
    ]
    counted = [pair for pair in told if not pair.why]
    if len(counted) < LEAST_PAIRS:
        reasons = dict.fromkeys(pair.why for pair in told if pair.why)
        why = f"{len(counted)} of {len(told)} pairs count and {LEAST_PAIRS} are needed: {'; '.join(reasons)}"
        return TrialVerdict(says="failed", pairs=tuple(told), why=why)
    controls = [float(pair.control or 0.0) for pair in counted]
    advised = [float(pair.advised or 0.0) for pair in counted]
    differences = [after - was for was, after in zip(controls, advised, strict=True)]
    mean, half = interval(differences)
    margin = MARGIN * (best - worst)
    same = all(_same(pairs[pair.pair - 1]) for pair in counted)
    says = "no difference" if same else word(mean, half, margin)
    noisy = says == "too noisy"
    winner = max(counted, key=lambda pair: float(pair.advised or 0.0))
    return TrialVerdict(
        says=says,
        pairs=tuple(told),
        control=_brief(statistics.fmean(controls)),
        advised=_brief(statistics.fmean(advised)),
        difference=_brief(mean),
        low=_brief(mean - half),
        high=_brief(mean + half),
        margin=_brief(margin),
        identical=same,
        more_updates=more_updates(plan.updates, mean, half, margin) if noisy else None,
        more_seeds=more_seeds(differences, margin) if noisy else None,
        best=pairs[winner.pair - 1][1].run,
    )


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """The mean of at least two differences, and half the width of its 95 % interval."""
    low, high = student_interval(differences)
    return (low + high) / 2.0, (high - low) / 2.0


def word(mean: float, half: float, margin: float) -> TrialWord:
    """What the interval `mean` plus and minus `half` says: within the margin, on one side of zero, or neither."""
    if abs(mean) + half <= margin:
        return "no difference"
    if mean - half > 0.0:
        return "helps"
    return "hurts" if mean + half < 0.0 else "too noisy"


def more_updates(updates: int, mean: float, half: float, margin: float) -> int | None:
    """How many more than `updates` would probably narrow the interval until it says something; None for far too many.

    As if the difference stayed what it is, and its spread were that of independent updates.
    """
    narrow = max(abs(mean), margin - abs(mean))
    if narrow <= 0.0 or (times := (half / narrow) ** 2) > FARTHEST:
        return None
    return max(1, math.ceil(updates * (times - 1.0)))


def more_seeds(differences: Sequence[float], margin: float) -> int | None:
    """How many pairs of such a spread would probably say something; None where `MOST_PAIRS` would not."""
    spread, mean = statistics.stdev(differences), abs(statistics.fmean(differences))
    for count in range(len(differences) + 1, MOST_PAIRS + 1):
        half = t_quantile(0.5 + LEVEL / 2.0, count - 1) * spread / math.sqrt(count)
        if half < max(mean, margin - mean):
            return count
    return None


def _pair(number: int, seed: int, ends: tuple[BranchEnd, BranchEnd], worst: float) -> TrialPair:
    """A branch that diverged counts as the worst that the run has seen: whatever it scored before is gone."""
    control, advised = (worst if end.diverged else end.reading.mean for end in ends)
    why = ""
    for arm, end in zip(ARMS, ends, strict=True):
        if end.diverged:
            continue
        if end.why or not end.reading.complete:
            why = why or f"{arm} {number} {end.why or 'did not come to the end of its budget'}"
        elif end.reading.mean is None:
            why = why or f"no episode of {arm} {number} ended in the second half of its budget: give a larger one"
    return TrialPair(number, seed, _brief(control), _brief(advised), why)


def _range(pairs: Sequence[tuple[BranchEnd, BranchEnd]], before: tuple[float, float] | None) -> tuple[float, float]:
    """The lowest and highest mean return that is known of the run and its branches."""
    means = [end.reading.mean for ends in pairs for end in ends if end.reading.mean is not None]
    known = [*means, *(before or ())]
    return (min(known), max(known)) if known else (0.0, 0.0)


def _same(ends: tuple[BranchEnd, BranchEnd]) -> bool:
    control, advised = ends
    return not control.diverged and not advised.diverged and control.reading == advised.reading


def _brief(value: float | None) -> Metric | None:
    """Six digits, as many as are worth keeping."""
    return None if value is None else spoken(float(f"{value:.6g}"))
