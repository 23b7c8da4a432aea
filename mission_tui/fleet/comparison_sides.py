"""One run of a comparison: its results in the numbers that runs are compared by, and its curves, to be drawn over those
of the others. Curves are thinned; of several seeds there are the median and the band.

A trace is one metric of a run over its timesteps and over the seconds it trained, with only the rows that count. On
their way between machines sides say what there is to compare of their own runs, and they are compared where somebody
looks.

And what is not the same of several runs: settings as they take effect, and what each was launched from.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from mission_tui.fleet.events import metrics
from mission_tui.fleet.events.findings import Severity, asking
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.events.provenance import Provenance
from mission_tui.fleet.history.course import ROLLOUT_SUCCESS, WHOLE_WINDOW
from mission_tui.fleet.history.series import OWN
from mission_tui.fleet.specs.algorithm import algorithm_name
from mission_tui.fleet.specs.flat_settings import APART, SEED, learned_with, value_word, written_settings
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.statistics.intervals import interquartile_mean, iqm_estimate, mean_estimate
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import RunView

MEASURES = ("best", "final", "area", "threshold_timesteps", "threshold_s", "steps_per_s", "peak_rss_bytes")
"""What of a result is summed up over seeds."""

_OF_WINDOWS = (RETURN, "rollout/ep_len_mean", ROLLOUT_SUCCESS)
"""Metrics that are means over the newest episodes."""

Axis = Literal["step", "time"]
Edges = Literal["range", "quartiles", "mean", "iqm"]
"""What a band of several seeds is: the median with least and greatest, or with the first and the third quartile; the
mean, or the interquartile mean, with the 95 % interval of `mission_tui.fleet.statistics` at each place.
"""

_BEYOND = 1e100
"""What is so large counts as infinite: it says that a training diverged, and sums and squares of it are no floats."""

POINTS = 300
_BOOTSTRAP_POINTS = 100
"""Each place takes a bootstrap of its own: about a second for all of a setting."""


class Side(Struct, frozen=True):
    """`spec` is the newest attempt's, with what was set while it trained; `effective` what its model said that it uses.

    `findings` counts every incident. `peak_rss_bytes` is the trainer's, of attempts that have ended. `threshold` is the
    return at which the environment's registration calls it solved; None where that says nothing. `rules` are the first
    characters of the digest of the mission's rules that it plays by, empty where it keeps none.
    """

    view: RunView
    spec: Spec
    trace: Trace
    findings: Mapping[Severity, int] = field(default_factory=dict)
    peak_rss_bytes: int | None = None
    effective: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance | None = None
    threshold: float | None = None
    rules: str = ""


class Trace(Struct, frozen=True):
    """`values` (finite ones only) at `timesteps` and at `seconds` of training; all three equally long.

    Seconds are those that the run's budget counts: by the clock, with what lies between updates and without pauses.
    `phases_only`: the trainer does not say them, and they are those in rollouts and updates. `broken`: the newest value
    is nan, infinite or as good as that.

    `paces` are steps per second of the updates that tell them. `updates`, `end_timesteps` and `end_s` are where the run
    stands; `end_s` 0 after updates: they have no times. From the value at `whole_from` on means are over a whole window
    of episodes: 0 where no episodes are counted, and where no window was whole.
    """

    timesteps: Sequence[int] = ()
    seconds: Sequence[float] = ()
    values: Sequence[float] = ()
    paces: Sequence[float] = ()
    updates: int = 0
    end_timesteps: int | None = None
    end_s: float = 0.0
    tags: frozenset[str] = field(default_factory=frozenset)
    whole_from: int = 0
    phases_only: bool = False
    broken: bool = False

    def axis(self, by: Axis) -> Sequence[float]:
        """Where the values are: timesteps, or seconds."""
        return self.timesteps if by == "step" else self.seconds


def trace_of(records: Iterable[metrics.MetricRecord], tag: str = metrics.RETURN) -> Trace:
    """The trace of `tag`, one of SB3's or ours. Rows that a later attempt took back do not count."""
    timesteps: list[int] = []
    seconds: list[float] = []
    values: list[float] = []
    paces: list[float] = []
    tags: set[str] = set()
    done_s, last = 0.0, None
    ended_s: dict[int, float] = {}
    ended, whole_from, phases_only, broken = 0, 0, False, False
    for record in metrics.counted_records(records)[0]:
        if not isinstance(record, metrics.UpdateDone | metrics.EvaluationDone):
            continue
        value = None
        if isinstance(record, metrics.UpdateDone):
            if last is not None and record.update <= last.update:
                continue
            before = last.timesteps if last is not None else 0
            last = record
            if record.trained_s is None:
                phases_s = record.rollout_s + record.update_s
                done_s += phases_s or _at_its_pace(record, before)
                phases_only = phases_only or phases_s > 0.0
            else:
                done_s = max(done_s, record.trained_s)
            ended_s[record.update], at_s = done_s, done_s
            if ended < WHOLE_WINDOW <= ended + record.episodes.n and tag in _OF_WINDOWS:
                whole_from = len(values)
            ended += record.episodes.n
            if record.steps_per_s > 0.0:
                paces.append(record.steps_per_s)
            tags.update(record.metrics)
            value = getattr(record, tag) if tag in OWN else metrics.number(record.metrics.get(tag))
        else:
            # Its row comes when it has been played, some updates after the policy that it is of.
            at_s = ended_s.get(record.update, done_s)
            said = metrics.evaluated(record)
            tags.update(said)
            value = metrics.number(said.get(tag))
        broken = broken if value is None else not abs(value) < _BEYOND
        # A script may count its steps as it likes; what goes back on the axis cannot be drawn over it.
        onward = not timesteps or record.timesteps >= timesteps[-1]
        if value is not None and abs(value) < _BEYOND and onward:
            timesteps.append(record.timesteps)
            seconds.append(at_s)
            values.append(value)
    updates, end = (last.update, last.timesteps) if last is not None else (0, None)
    whole_from = whole_from if whole_from < len(values) else 0
    known = frozenset(tags)
    return Trace(timesteps, seconds, values, paces, updates, end, done_s, known, whole_from, phases_only, broken)


def _at_its_pace(update: metrics.UpdateDone, before: int) -> float:
    """Seconds of an update whose phases have no times, such as an imported one's; 0 where its speed is unknown too."""
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


class Result(Struct, frozen=True, kw_only=True):
    """`final` is the metric at its last row, None where that is no number, `best` its highest, first
    reached at `best_timesteps`; both it and the threshold count means over a whole window of episodes, once there was
    one, as the list has them.

    `area` is the area under the curve over what all runs have of the axis, divided by its length, so it is a mean.
    `threshold_timesteps` and `threshold_s` (seconds of training) are where the metric first was at the threshold; None
    for a run that never was. Times and `steps_per_s`, the median over updates, are None where rows have no times.
    `peak_rss_bytes` is the most memory the trainer had in RAM in attempts that have ended. `findings` counts all
    incidents by severity, and `open_findings` those that ask for action; None from a version that did not say it.
    """

    updates: int
    timesteps: int | None
    trained_s: float | None
    best: float | None
    best_timesteps: int | None
    final: float | None
    area: float | None
    threshold_timesteps: int | None
    threshold_s: float | None
    steps_per_s: float | None
    peak_rss_bytes: int | None
    findings: dict[Severity, int]
    open_findings: int | None = None


def shared_span(traces: Sequence[Trace], by: Axis) -> tuple[float, float] | None:
    """The part of the axis that every trace covers; None where there is none."""
    axes = [trace.axis(by) for trace in traces]
    if not axes or not all(axes):
        return None
    low, high = max(axis[0] for axis in axes), min(axis[-1] for axis in axes)
    return (low, high) if high > low else None


def budget_of(traces: Sequence[Trace], by: Axis) -> float | None:
    """How far the shortest of `traces` goes on the axis; None where none has a value, or the axis no length.

    One that broke has no value later on: that is its result, and no reason to compare the others at less.
    """
    known = [trace for trace in traces if trace.values]
    ends = [trace.axis(by)[-1] for trace in known if not trace.broken] or [trace.axis(by)[-1] for trace in known]
    return min(ends) or None if ends else None


def upto(trace: Trace, by: Axis, budget: float | None) -> dict[str, float | None]:
    """`final` and `best` as they were at `budget`, so that a longer run has no more than a shorter one: the value on
    the line between the rows around it, and the best until then. Nothing where there is no budget.
    """
    if budget is None:
        return {}
    axis = trace.axis(by)
    done = bisect_right(axis, budget)
    if not done:
        return {"final": None, "best": None}
    whole_from = trace.whole_from if trace.whole_from < done else 0
    broken = trace.broken and budget > axis[-1]
    final = None if broken else level(axis, trace.values, min(budget, axis[-1]))
    return {"final": final, "best": max(trace.values[whole_from:done])}


def result_of(side: Side, by: Axis, span: tuple[float, float] | None, threshold: float | None) -> Result:
    """The numbers of one run; None where its rows do not say."""
    trace = side.trace
    values, clocked = trace.values, trace.end_s > 0.0 or not trace.updates
    counted = range(trace.whole_from, len(values))
    best = max(counted, key=values.__getitem__, default=None)
    reached = next((at for at in counted if threshold is not None and values[at] >= threshold), None)
    return Result(
        updates=trace.updates,
        timesteps=trace.end_timesteps,
        trained_s=trace.end_s if clocked else None,
        best=None if best is None else values[best],
        best_timesteps=None if best is None else trace.timesteps[best],
        final=values[-1] if values and not trace.broken else None,
        area=mean_level(trace.axis(by), values, *span) if span is not None else None,
        threshold_timesteps=None if reached is None else trace.timesteps[reached],
        threshold_s=None if reached is None or not clocked else trace.seconds[reached],
        steps_per_s=statistics.median(trace.paces) if trace.paces else None,
        peak_rss_bytes=side.peak_rss_bytes,
        findings=dict(side.findings),
        open_findings=len(asking(side.view.findings, over=side.view.state in OVER)),
    )


class Curve(Struct, frozen=True):
    """`y` over `x` (timesteps, or seconds of training); `low` and `high` are the band, empty where there is none."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


def curve_of(name: str, trace: Trace, by: Axis, points: int = POINTS, *, extremes: bool = False) -> Curve:
    """At most `points` points, each the mean of a bucket of rows at the bucket's end; with its `extremes` as a band."""
    axis, values = trace.axis(by), trace.values
    buckets = min(points, len(values))
    edges = [bucket * len(values) // buckets for bucket in range(buckets + 1)] if buckets else [0]
    spans = list(pairwise(edges))
    return Curve(
        name,
        tuple(_short(axis[end - 1]) for _, end in spans),
        tuple(_short(statistics.fmean(values[start:end])) for start, end in spans),
        tuple(_short(min(values[start:end])) for start, end in spans) if extremes else (),
        tuple(_short(max(values[start:end])) for start, end in spans) if extremes else (),
    )


def band_of(name: str, traces: Sequence[Trace], by: Axis, points: int, edges: Edges) -> Curve | None:
    """The middle and `edges` of several runs on the part of the axis that all have; None where there is none. Too few
    runs for an interval have the middle alone.
    """
    span = shared_span(traces, by)
    if len(traces) < 2 or span is None:
        return None
    low, high = span
    points = min(points, _BOOTSTRAP_POINTS) if edges == "iqm" else points
    places = [low + (high - low) * point / (points - 1) for point in range(points - 1)] + [high]
    columns = [[level(trace.axis(by), trace.values, place) for trace in traces] for place in places]
    middles = [_middle_and_ends(column, edges) for column in columns]
    return Curve(
        name,
        tuple(_short(place) for place in places),
        tuple(_short(middle[0]) for middle in middles),
        *(tuple(map(_short, side)) for side in zip(*(middle[1:] for middle in middles), strict=True)),
    )


def _middle_and_ends(column: Sequence[float], edges: Edges) -> tuple[float, ...]:
    """The middle, the lower and the upper end; the middle alone where there are too few values for an interval."""
    match edges:
        case "range":
            return statistics.median(column), min(column), max(column)
        case "quartiles":
            first, middle, third = statistics.quantiles(column, n=4, method="inclusive")
            return middle, first, third
        case "mean":
            middle, known = statistics.fmean(column), mean_estimate(column)
        case "iqm":
            middle, known = interquartile_mean(column), iqm_estimate(column)
    # Where all seeds have one value there is no interval: the band is as thin as a line there.
    return (middle,) if known is None else (middle, *(known.interval or (middle, middle)))


def _short(value: float) -> float:
    """Seven digits: more than a picture shows, and a third of the bytes."""
    return float(f"{value:.7g}") if math.isfinite(value) else value


_MOST_ROWS = 4000
"""Of a longer trace the least and the greatest of each stretch travel: a line may carry ten kilobytes a second."""


def packed(side: Side) -> dict[str, Any]:
    """`side` in builtin values, its trace in at most `MOST_ROWS` rows."""
    facts: dict[str, Any] = msgspec.to_builtins(replace(side, trace=thinned(side.trace)))
    return facts


def unpacked(facts: dict[str, Any]) -> Side:
    """The side that was `packed`. Raises `ValueError` for what is none."""
    return msgspec.convert(facts, Side)


def thinned(trace: Trace) -> Trace:
    """`trace` with at most `_MOST_ROWS` of its values: first, last, and of each stretch the least and the greatest."""
    values = trace.values
    if len(values) > _MOST_ROWS:
        stretches = _MOST_ROWS // 2 - 1
        kept = {0, len(values) - 1, max(range(trace.whole_from, len(values)), key=values.__getitem__)}
        for at in range(stretches):
            stretch = range(at * len(values) // stretches, (at + 1) * len(values) // stretches)
            kept |= {min(stretch, key=values.__getitem__), max(stretch, key=values.__getitem__)}
        places = sorted(kept)
        trace = replace(
            trace,
            timesteps=[trace.timesteps[at] for at in places],
            seconds=[trace.seconds[at] for at in places],
            values=[values[at] for at in places],
            whole_from=bisect_left(places, trace.whole_from),
        )
    every = -(-len(trace.paces) // _MOST_ROWS)
    return replace(trace, paces=trace.paces[::every]) if every > 1 else trace


RULES = "rules"
"""The row that says by which rules a MissionGym run plays, by the first characters of their digest."""
ALGORITHM = "run.algo"
_PPO = "ppo"
_CHOSEN = ("env.vec", "env.n_workers", "ppo.batch_size", "ppo.n_epochs", "run.device", "run.threads")
"""Settings that the trainer fills where nobody gave them: what it chose counts, not that nobody wrote it."""


class Row(Struct, frozen=True):
    """Something that differs: its name, and its value in each run, in order; None where a run has none."""

    name: str
    values: tuple[Any, ...]


def cohort_key(spec: Spec, rules: str = "") -> bytes:
    """Equal for runs that differ in nothing but the seed, in words that name them, in what lets them begin, and in who
    hears of them.
    """
    return msgspec.json.encode((rules, learned_with(spec)))


def differing_settings(sides: Sequence[Side]) -> tuple[Row, ...]:
    """A row per setting that is not the same in all. The seed is none, it stands with each run; and neither is what
    `APART` lists.
    """
    tables = [effective_settings(side) for side in sides]
    if any(ALGORITHM in table for table in tables):
        names = [None if side.spec.run.command is not None else algorithm_name(side.spec) for side in sides]
        tables = [{ALGORITHM: name} | table for name, table in zip(names, tables, strict=True)]
    rows = _rows(tables)
    unsaid = _unsaid([written_settings(side.spec) for side in sides], sides)
    return tuple(row for row in rows if row.name not in (SEED, *unsaid) and not row.name.startswith(APART))


def beside_algorithm(rows: Sequence[Row]) -> tuple[Row, ...]:
    """`rows` without the settings of an algorithm that are the same in all of its runs: its name says as much."""
    algorithms = next((row.values for row in rows if row.name == ALGORITHM), None)
    if algorithms is None:
        return tuple(rows)
    tables = [name if name is None or name in OTHERS else _PPO for name in algorithms]
    found = []
    for row in rows:
        table = row.name.partition(".")[0]
        own = [value for value, its in zip(row.values, tables, strict=True) if its == table]
        if table not in (_PPO, *OTHERS) or any(value != own[0] for value in own):
            found.append(row)
    return tuple(found)


def _unsaid(written: Sequence[Mapping[str, Any]], sides: Sequence[Side]) -> set[str]:
    """What the trainer chooses, where all ask for the same and those that have said their choice chose alike: a run
    that waits in the queue has not chosen otherwise.
    """
    found = set()
    for name in _CHOSEN:
        table, _, key = name.partition(".")
        chosen = [side.effective.get(table, {}).get(key) for side in sides]
        known = [value for value in chosen if value is not None]
        alike = all(it.get(name) == written[0].get(name) for it in written)
        if alike and len(known) < len(chosen) and all(value == known[0] for value in known):
            found.add(name)
    return found


def changed_settings(was: Spec, now: Spec) -> tuple[Row, ...]:
    """A row per setting that is not the same in both, as they are written; a seed is one of them."""
    return _rows([written_settings(was), written_settings(now)])


def differing_provenance(sides: Sequence[Side]) -> tuple[Row, ...]:
    """A row per fact that is not the same where it is known; runs of which nothing is recorded have None."""
    known = [_facts(side.provenance) if side.provenance is not None else None for side in sides]
    told = [facts for facts in known if facts is not None]
    rows = _rows(told)
    found = []
    for row in rows:
        values = iter(row.values)
        found.append(Row(row.name, tuple(None if facts is None else next(values) for facts in known)))
    return tuple(found)


def setting_words(rows: Sequence[Row], at: int, most: int = 3) -> str:
    """What the run at place `at` has set otherwise than others, for a legend: `gamma 0.99, batch_size 64`.

    Empty where nothing differs. Of more than `most` settings the first are named.
    """
    rows = beside_algorithm(rows)
    short = [row.name.rpartition(".")[2] for row in rows]
    names = [name if short.count(name) == 1 else row.name for name, row in zip(short, rows, strict=True)]
    words = [f"{name} {value_word(row.values[at])}" for name, row in zip(names, rows, strict=True)][:most]
    return ", ".join([*words, *([f"{len(rows) - most} more"] if len(rows) > most else [])])


def _rows(tables: Sequence[Mapping[str, Any]]) -> tuple[Row, ...]:
    names = dict.fromkeys(name for table in tables for name in table)
    rows = (Row(name, tuple(table.get(name) for table in tables)) for name in names)
    return tuple(row for row in rows if any(value != row.values[0] for value in row.values))


def effective_settings(side: Side) -> dict[str, Any]:
    """Every setting, with what the trainer chose."""
    flat = written_settings(side.spec)
    if side.rules:
        flat[RULES] = side.rules
    for name in _CHOSEN:
        table, _, key = name.partition(".")
        said = side.effective.get(table, {}).get(key)
        if said is not None:
            flat[name] = said
    return flat


def _facts(known: Provenance) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for tree in known.repositories:
        name = f"code of {clean(tree.name, 60)}" if tree.name else "code"
        changes = f" ({tree.diff_sha256[:7]})" if tree.diff_sha256 else ""
        facts[name] = f"{tree.word}{changes}"
    facts["folder"] = clean(known.cwd)
    facts["Python"] = clean(known.python_version)
    facts |= {f"package {clean(name, 60)}": clean(version, 60) for name, version in sorted(known.packages.items())}
    facts |= {clean(name, 40): clean(value, 80) for name, value in known.machine.items()}
    return facts
