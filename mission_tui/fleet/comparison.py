"""The whole comparison: results of each run, seeds of one setting together, which setting came out best over its seeds
and which others lie behind it, what differs, and what to mind.

An interval is given only where it means something, and all of one table hold together: `docs/statistics.md` says how
often they do.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence, Set
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.comparison_sides import (
    MEASURES,
    POINTS,
    RULES,
    Axis,
    Curve,
    Edges,
    Result,
    Row,
    Side,
    band_of,
    beside_algorithm,
    budget_of,
    cohort_key,
    curve_of,
    differing_provenance,
    differing_settings,
    level,
    result_of,
    shared_span,
    upto,
)
from mission_tui.fleet.events.findings import stories
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.outcome import ALIVE, OVER
from mission_tui.fleet.specs.algorithm import algorithm_name
from mission_tui.fleet.statistics import intervals, quartiles
from mission_tui.fleet.statistics.intervals import LEAST_FOR_IQM, LEAST_VALUES, difference
from mission_tui.fleet.text import clean

Middle = Literal["mean", "iqm"]
"""By what settings are ranked: the interquartile mean where all of them have seeds enough for it."""


class Ranked(Struct, frozen=True, kw_only=True):
    """One setting at its place: `cohort` among those of the comparison, `settings` as far as they differ.

    `mean` and `iqm` (interquartile mean, from ten seeds on) are over the seeds' values at the common budget, each with
    its 95 % interval, and `median` is of the same values, as the row of a group in the list has one. `behind` is how
    far its middle lies behind the first's, with an interval that holds together with those of all other settings;
    `is_behind`: that lies above 0. `improvement` is the probability that a seed of the
    first comes out above one of this (ties by half). None where there is nothing to say, or too few seeds to say it.
    """

    place: int
    cohort: int
    settings: dict[str, Any]
    seeds: int
    mean: float | None = None
    interval: tuple[float, float] | None = None
    iqm: float | None = None
    iqm_interval: tuple[float, float] | None = None
    behind: float | None = None
    behind_interval: tuple[float, float] | None = None
    is_behind: bool | None = None
    improvement: float | None = None
    median: float | None = None


class Spread(Struct, frozen=True, kw_only=True):
    """Over `n` runs that have the value, of `of`: median, first and third quartile, mean, least and greatest.

    `interval` is Student's 95 % interval of the mean, None below three seeds and where all seeds have the same value;
    `iqm` and `iqm_interval` are the interquartile mean and its bootstrap interval, from ten seeds on.
    """

    n: int
    of: int
    median: float
    mean: float
    low: float
    high: float
    interval: tuple[float, float] | None = None
    quartiles: tuple[float, float] | None = None
    iqm: float | None = None
    iqm_interval: tuple[float, float] | None = None


class Contrast(Struct, frozen=True, kw_only=True):
    """The mean of `measure` over the runs of `group` less that over the runs of `against`, with its 95 % interval.

    Of `final`, where settings are ranked, it is the middle that they are ranked by, with the interval of the ranking;
    those of all other rows hold together. `sure`: the interval does not contain 0.
    """

    group: str
    against: str
    measure: str
    difference: float
    interval: tuple[float, float]
    sure: bool


def is_return(metric: str) -> bool:
    """Whether `metric` is a mean return, which a threshold of returns is about."""
    return metric.endswith(("ep_rew_mean", "mean_reward"))


def is_better_higher(metric: str) -> bool:
    """Whether more of `metric` is better, which is not known of others."""
    return is_return(metric) or metric.endswith("success_rate")


def ranked_by(values: Sequence[Sequence[float | None]]) -> Middle:
    """By what settings with these `values` (one list per setting, one value per seed) are ranked."""
    return "iqm" if all(_whole(intervals.iqm_estimate, side) is not None for side in values) else "mean"


def ranked(values: Sequence[Sequence[float | None]], firsts: Sequence[int], rows: Sequence[Row]) -> tuple[Ranked, ...]:
    """Settings by the middle of their `values` (one list per setting, one value per seed), best first, unknown last.

    `firsts` are the places in `rows` of one run of each setting.
    """
    known, by_iqm = [intervals.finite(side) for side in values], ranked_by(values) == "iqm"
    means = [_whole(intervals.mean_estimate, side) for side in values]
    estimates = [_whole(intervals.iqm_estimate, side) for side in values] if by_iqm else means
    middles = [(intervals.interquartile_mean if by_iqm else statistics.fmean)(side) if side else None for side in known]
    order = sorted(range(len(values)), key=lambda at: (middles[at] is None, -(middles[at] or 0.0), at))
    leader = order[0]
    # The highest is the leader, unless that has too few seeds: then nobody is known to be behind it.
    behind = intervals.behind_best(estimates) if estimates[leader] is not None else (None,) * len(values)
    found = []
    for place, at in enumerate(order, 1):
        best, middle, mean, iqm = middles[leader], middles[at], means[at], _whole(intervals.iqm_estimate, values[at])
        ends = behind[at]
        found.append(
            Ranked(
                place=place,
                cohort=at,
                settings={row.name: row.values[firsts[at]] for row in rows},
                seeds=len(known[at]),
                mean=statistics.fmean(known[at]) if known[at] else None,
                interval=None if mean is None else mean.interval,
                iqm=None if iqm is None else iqm.middle,
                iqm_interval=None if iqm is None else iqm.interval,
                behind=None if at == leader or best is None or middle is None else best - middle,
                behind_interval=ends,
                is_behind=None if ends is None else ends[0] > 0.0,
                improvement=None if at == leader else intervals.probability_of_improvement(known[leader], known[at]),
                median=statistics.median(known[at]) if known[at] else None,
            )
        )
    return tuple(found)


def against_first(values: Sequence[Sequence[float | None]]) -> list[tuple[int, float, tuple[float, float]]]:
    """Of each further setting its place, its middle less that of the first, and the interval of that: the one by which
    settings are ranked, so that no two tables say different things of the same two settings.
    """
    estimate = intervals.iqm_estimate if ranked_by(values) == "iqm" else intervals.mean_estimate
    estimates = [_whole(estimate, side) for side in values]
    found = []
    for place, (one, ends) in enumerate(zip(estimates, intervals.behind(estimates, 0), strict=True)):
        if one is not None and ends is not None and (first := estimates[0]) is not None:
            found.append((place, one.middle - first.middle, (-ends[1], -ends[0])))
    return found


def spread_of(values: Sequence[float | None]) -> Spread | None:
    """The spread of what is known of `values`; None where nothing is."""
    middle = quartiles(values)
    if middle is None:
        return None
    known = sorted(intervals.finite(values))
    mean, iqm = _whole(intervals.mean_estimate, values), _whole(intervals.iqm_estimate, values)
    return Spread(
        n=middle.n,
        of=middle.of,
        median=middle.median,
        quartiles=(middle.first, middle.third),
        mean=statistics.fmean(known),
        low=known[0],
        high=known[-1],
        interval=None if mean is None else mean.interval,
        iqm=None if iqm is None else iqm.middle,
        iqm_interval=None if iqm is None else iqm.interval,
    )


def whole_mean(values: Sequence[float | None]) -> intervals.Estimate | None:
    """The mean of `values`; None where some are not known, or they are too few."""
    return _whole(intervals.mean_estimate, values)


def _whole(estimate: Any, values: Sequence[float | None]) -> intervals.Estimate | None:
    """Where some have no value the others are not a sample of all: those that got there are the better ones."""
    known = intervals.finite(values)
    found: intervals.Estimate | None = estimate(known) if len(known) == len(values) else None
    return found


MOST = 64
"""Runs of one comparison: as many as one launch makes."""

_LETTERS = 26
_OF_THE_MACHINE = ("steps_per_s",)
_NEVER_NEGATIVE = ("threshold_timesteps", "threshold_s", "steps_per_s", "peak_rss_bytes")
"""Student's interval of a few that lie far apart reaches below what there can be."""
_CONTRASTED = ("best", "final", "area", *_OF_THE_MACHINE)
_ALIKE = 1.05
"""Runs of which none is longer than another by more than this have one length: rollouts end where they end."""
_MACHINE = {"host", "cpu", "cores", "gpus"}
_OTHER_TASK = ("env.id", RULES)
_OTHER_RETURNS = ("env.kwargs", "env.config", "env.wrappers")


class AxisMark(Struct, frozen=True):
    """What happened to a run `at` a place of the axis: the first setting that was changed, what it was in a word
    (`paused`, `resumed`), or the rule of a warning or worse that began there.
    """

    at: float
    kind: Literal["set", "event", "finding"]
    what: str


class Compared(Struct, frozen=True, kw_only=True):
    """One run; `cohort` is its place among the cohorts, `changes` what was set while it trained."""

    id: str
    name: str
    preset: str
    seed: int | None
    state: str
    outcome: str | None
    cohort: int
    result: Result
    changes: tuple[str, ...] = ()
    happened: tuple[AxisMark, ...] = ()


class Cohort(Struct, frozen=True, kw_only=True):
    """Runs (ids) that differ in nothing but their seed, the seeds, and the spread of each measure over these.

    Of runs with the same seed only the one that went furthest counts. `live` runs have a living trainer.
    """

    name: str
    runs: tuple[str, ...]
    seeds: tuple[int | None, ...]
    spreads: dict[str, Spread]
    live: int = 0


class Comparison(Struct, frozen=True, kw_only=True):
    """`span` is the part of the axis `by` that all runs have, over which areas are taken. `notes` are sentences.

    `budget` is the place on that axis at which settings are held against each other, where the shortest run stands;
    `ranked_by` says by which middle. `curves` has one for each run, in order; `bands` one for each cohort of two runs
    or more that has any. `ranking` is empty for one cohort, for a metric of which it is not known that more is better,
    and for different tasks.
    """

    metric: str
    by: Axis
    threshold: float | None
    span: tuple[float, float] | None
    runs: tuple[Compared, ...]
    cohorts: tuple[Cohort, ...]
    contrasts: tuple[Contrast, ...]
    ranking: tuple[Ranked, ...]
    budget: float | None
    ranked_by: Middle
    settings: tuple[Row, ...]
    provenance: tuple[Row, ...]
    notes: tuple[str, ...]
    curves: tuple[Curve, ...]
    bands: tuple[Curve, ...]


def letter(place: int) -> str:
    """What the run at `place` is called where there is no room for its name: A, B, C, and after Z AA, AB."""
    before, at = divmod(place, _LETTERS)
    return (letter(before - 1) if before else "") + chr(ord("A") + at)


class Drawing(Struct, frozen=True, kw_only=True):
    """One metric to be drawn: `curves` has one for each run, `bands` one (or None) for each cohort, both in order."""

    metric: str
    threshold: float | None
    curves: tuple[Curve, ...]
    bands: tuple[Curve | None, ...]


def drawing_of(
    sides: Sequence[Side],
    metric: str,
    by: Axis = "step",
    threshold: float | None = None,
    edges: Edges = "range",
    *,
    points: int = POINTS,
    extremes: bool = False,
) -> Drawing:
    """What `compare` has to draw, without its numbers; curves with the `extremes` of what was put together.

    Raises `UsageError` for a metric that no run has, and for a setting with too few seeds for the band.
    """
    known = frozenset[str]().union(*(side.trace.tags for side in sides))
    if known and not any(side.trace.values for side in sides):
        meant, there = nearest(metric, known), ", ".join(sorted(known))
        raise UsageError(f"none of these runs has a value of '{metric}'{meant}; they have {there}")
    if threshold is None:
        said = {side.threshold for side in sides}
        threshold = said.pop() if len(said) == 1 and is_return(metric) else None
    groups = [(_name(members, sides), _one_a_seed(members, sides)) for members in _grouped(sides)]
    for name, counted in groups:
        if edges == "iqm" and 1 < len(counted) < LEAST_FOR_IQM:
            few = f"{clean(sides[counted[0]].view.name)} and its other seeds ({name}) are {len(counted)}"
            takes = f"an interquartile mean with its interval takes {LEAST_FOR_IQM} seeds of a setting"
            raise UsageError(f"{takes}, and {few}: take the mean")
    bands = (band_of(name, [sides[at].trace for at in counted], by, points, edges) for name, counted in groups)
    curves = tuple(curve_of(side.view.name, side.trace, by, points, extremes=extremes) for side in sides)
    return Drawing(metric=metric, threshold=threshold, curves=curves, bands=tuple(bands))


def compare(
    sides: Sequence[Side], metric: str, by: Axis = "step", threshold: float | None = None, *, least: int = 2
) -> Comparison:
    """The comparison of `least` to 64 runs.

    Without `threshold` it is that of the environments' registration, if they agree on one. Raises `UsageError`.
    """
    if not least <= len(sides) <= MOST:
        raise UsageError(f"compare takes {least} to {MOST} runs, and these are {len(sides)}")
    drawing = drawing_of(sides, metric, by, threshold)
    threshold = drawing.threshold
    span = shared_span([side.trace for side in sides], by)
    settings, provenance = differing_settings(sides), differing_provenance(sides)
    one_task = not any(row.name in _OTHER_TASK for row in settings)
    results = [result_of(side, by, span, threshold) for side in sides]
    groups = _grouped(sides)
    counted = [_one_a_seed(members, sides) for members in groups]
    budget = budget_of([sides[at].trace for places in counted for at in places], by)
    at_budget = [structs.replace(it, **upto(side.trace, by, budget)) for side, it in zip(sides, results, strict=True)]
    finals = [[at_budget[at].final for at in places] for places in counted]
    cohorts = tuple(_cohort(members, sides, results) for members in groups)
    is_ranked = is_better_higher(metric) and one_task and len(groups) > 1
    place_of = {place: number for number, members in enumerate(groups) for place in members}
    return Comparison(
        metric=metric,
        by=by,
        threshold=threshold,
        span=span,
        runs=tuple(
            _compared(side, result, place_of[at], by)
            for at, (side, result) in enumerate(zip(sides, results, strict=True))
        ),
        cohorts=cohorts,
        contrasts=_contrasts(
            cohorts,
            counted,
            at_budget,
            _CONTRASTED if one_task else _OF_THE_MACHINE,
            against_first(finals) if is_ranked else None,
        ),
        ranking=ranked(finals, [members[0] for members in groups], beside_algorithm(settings)) if is_ranked else (),
        budget=budget,
        ranked_by=ranked_by(finals),
        settings=settings,
        provenance=provenance,
        notes=(
            *_notes(sides, cohorts, {row.name for row in settings + provenance}, span, metric),
            *(_clocks(sides) if by == "time" else ()),
            *(_lengths([sides[at] for places in counted for at in places], by, budget) if len(cohorts) > 1 else ()),
        ),
        curves=drawing.curves,
        bands=tuple(band for band in drawing.bands if band is not None),
    )


def in_cohorts(sides: Sequence[Side]) -> list[Side]:
    """`sides` with the seeds of one setting beside each other, each setting where its first one was."""
    return [sides[at] for members in _grouped(sides) for at in members]


def compared(sides: Sequence[Side], by: Axis, threshold: float | None) -> dict[str, Any]:
    """The comparison of these in builtin values, seeds of one setting beside each other. Raises as `compare`."""
    found: dict[str, Any] = msgspec.to_builtins(compare(in_cohorts(sides), RETURN, by, threshold))
    return found


def _grouped(sides: Sequence[Side]) -> list[list[int]]:
    """Places of the runs of each cohort, in order of the first of each."""
    groups: dict[bytes, list[int]] = {}
    for place, side in enumerate(sides):
        groups.setdefault(cohort_key(side.spec, side.rules), []).append(place)
    return list(groups.values())


def _happened(side: Side, by: Axis) -> Iterator[AxisMark]:
    """In the order of the axis within each kind; what has no place on it is left out."""
    view, trace = side.view, side.trace
    known: list[tuple[Literal["set", "event", "finding"], int, str]]
    known = [("set", it.timesteps, it.diff[0]) for it in view.changes if it.timesteps is not None and it.diff]
    known += [("event", it.timesteps, it.word) for it in view.moments]
    if trace.updates and trace.end_timesteps is not None:
        each = trace.end_timesteps / trace.updates
        told = (it for it in stories(view.findings) if it.severity != "info")
        known += [("finding", round(it.first_update * each), it.rule) for it in told]
    for kind, timesteps, what in known:
        if by == "step":
            yield AxisMark(float(timesteps), kind, clean(what, 80))
        elif trace.timesteps:
            within = min(max(timesteps, trace.timesteps[0]), trace.timesteps[-1])
            yield AxisMark(level(trace.timesteps, trace.seconds, within), kind, clean(what, 80))


def _compared(side: Side, result: Result, cohort: int, by: Axis) -> Compared:
    view = side.view
    return Compared(
        id=view.id,
        name=view.name,
        preset=view.preset,
        seed=side.spec.run.seed,
        state=view.state,
        outcome=view.outcome,
        cohort=cohort,
        result=result,
        changes=tuple(change.sentence for change in view.changes),
        happened=tuple(_happened(side, by)),
    )


def _one_a_seed(members: Sequence[int], sides: Sequence[Side]) -> list[int]:
    """Of runs with the same seed the one that went furthest: its repetition says nothing about other seeds.

    Runs whose seed is not known count as different.
    """
    furthest: dict[int, int] = {}
    for at in members:
        seed = sides[at].spec.run.seed
        key = -1 - at if seed is None else seed
        if key not in furthest or sides[at].trace.updates > sides[furthest[key]].trace.updates:
            furthest[key] = at
    return sorted(furthest.values())


def _cohort(members: Sequence[int], sides: Sequence[Side], results: Sequence[Result]) -> Cohort:
    counted = _one_a_seed(members, sides)
    spreads = {name: spread_of([getattr(results[at], name) for at in counted]) for name in MEASURES}
    for name in _NEVER_NEGATIVE:
        if (spread := spreads[name]) is not None and spread.interval is not None:
            low, high = spread.interval
            spreads[name] = structs.replace(spread, interval=(max(0.0, low), high))
    return Cohort(
        name=_name(members, sides),
        runs=tuple(sides[at].view.id for at in members),
        seeds=tuple(sides[at].spec.run.seed for at in counted),
        spreads={name: spread for name, spread in spreads.items() if spread is not None},
        live=sum(sides[at].view.state in ALIVE for at in members),
    )


def _contrasts(
    cohorts: Sequence[Cohort],
    counted: Sequence[Sequence[int]],
    results: Sequence[Result],
    measures: Sequence[str],
    finals: Sequence[tuple[int, float, tuple[float, float]]] | None,
) -> tuple[Contrast, ...]:
    """Each further setting against the first in each of `measures`, where both have seeds enough.

    `finals` are those of the ranking, where there is one. Every other row is a question of its own, and their intervals
    hold together.
    """
    pairs = []
    for place in range(1, len(cohorts)):
        for measure in measures:
            if measure == "final" and finals is not None:
                continue
            one, other = (whole_mean([getattr(results[at], measure) for at in counted[side]]) for side in (place, 0))
            if one is not None and other is not None and difference(one, other) is not None:
                pairs.append((place, measure, one, other))
    found = [(place, "final", apart, ends) for place, apart, ends in finals or ()]
    for place, measure, one, other in pairs:
        ends = difference(one, other, len(pairs))
        assert ends is not None
        found.append((place, measure, one.middle - other.middle, ends))
    found.sort(key=lambda it: (it[0], measures.index(it[1])))
    return tuple(
        Contrast(
            group=cohorts[place].name,
            against=cohorts[0].name,
            measure=measure,
            difference=apart,
            interval=ends,
            sure=ends[0] > 0 or ends[1] < 0,
        )
        for place, measure, apart, ends in found
    )


def _name(members: Sequence[int], sides: Sequence[Side]) -> str:
    """The one run's own name; several by their letters: `A-C`, `A D`."""
    first, last = members[0], members[-1]
    if first == last:
        return sides[first].view.name
    if last - first + 1 == len(members):
        return f"{letter(first)}-{letter(last)}"
    return " ".join(letter(at) for at in members)


def _notes(
    sides: Sequence[Side],
    cohorts: Sequence[Cohort],
    names: Set[str],
    span: tuple[float, float] | None,
    metric: str,
) -> Iterator[str]:
    if other := [name for name in _OTHER_TASK if name in names]:
        yield f"the tasks differ ({', '.join(other)}): their returns cannot be compared"
    elif any(name == key or name.startswith(f"{key}.") for name in names for key in _OTHER_RETURNS):
        yield "the environments differ in their settings: the same return may not mean the same"
    algorithms = dict.fromkeys(algorithm_name(side.spec) for side in sides if side.spec.run.command is None)
    if len(algorithms) > 1:
        returns = "" if other else "; returns by step or by time can be compared"
        named = ", ".join(algorithms)
        yield f"the algorithms differ ({named}): an update is not the same in each, nor are losses{returns}"
    if names & _MACHINE:
        yield "the machines differ: speeds and times cannot be compared"
    for cohort in cohorts:
        if len(cohort.seeds) < len(cohort.runs):
            yield f"{cohort.name}: runs with the same seed count as one, the one that went furthest"
    if len(cohorts) > 1:
        yield from _remarks_on_seeds(cohorts)
    if going_on := [side.view.name for side in sides if side.view.state not in OVER]:
        yield f"{', '.join(going_on)} {'has' if len(going_on) == 1 else 'have'} not ended: numbers so far"
    if without := [side.view.name for side in sides if not side.trace.values]:
        yield f"no value of {clean(metric)} yet: {', '.join(without)}"
    yield from _branches(sides)
    if broken := [side.view.name for side in sides if side.trace.broken]:
        said = "is no number at the end, so there is no final value"
        yield f"{', '.join(broken)}: {clean(metric)} {said}; best and area are of what came before"
    if span is None and all(side.trace.values for side in sides):
        yield "the curves have no part of the axis in common, so there are no areas"
    begun = [side for side in sides if side.view.started_t is not None or side.view.update is not None]
    unknown = [side.view.name for side in begun if side.provenance is None]
    if unknown:
        yield f"{', '.join(unknown)}: code and packages at launch are not recorded"


def _remarks_on_seeds(cohorts: Sequence[Cohort]) -> Iterator[str]:
    alone = [cohort.name for cohort in cohorts if len(cohort.seeds) == 1]
    few = [cohort.name for cohort in cohorts if 1 < len(cohort.seeds) < LEAST_VALUES]
    if len(alone) == len(cohorts):
        yield "1 seed of each setting: no interval, and a difference may come from the seeds alone"
        return
    if alone:
        yield f"1 seed of {', '.join(alone)}: no interval"
    if few:
        yield f"2 seeds of {', '.join(few)}: no interval (3 are the least)"
    for cohort in cohorts:
        final = cohort.spreads.get("final")
        if final is not None and final.n == final.of >= LEAST_VALUES and final.low == final.high:
            yield f"{cohort.name}: all {final.n} seeds ended alike, so their scatter is not known: no interval"


def _branches(sides: Sequence[Side]) -> Iterator[str]:
    """Whose weights had been trained before, where not all runs began with the same."""
    begun: dict[str, list[str]] = {}
    for side in sides:
        begun.setdefault(_learned_before(side), []).append(side.view.name)
    for before, names in begun.items() if len(begun) > 1 else ():
        if before:
            yield f"{', '.join(names)} began with weights that {before}, which is in no count of timesteps or time here"


def _learned_before(side: Side) -> str:
    """Where the weights of a branch were trained before: its own count begins at 0."""
    for it in side.view.origins:
        if it.kind == "branch":
            return (
                f"{clean(it.name)} had trained for {int(it.checkpoint):,} timesteps"
                if it.checkpoint.isdecimal()
                else ""
            )
    return ""


def _clocks(sides: Sequence[Side]) -> Iterator[str]:
    """Whose seconds are fewer than those by the clock."""
    if partial := [side.view.name for side in sides if side.trace.phases_only]:
        yield (
            f"{', '.join(partial)}: only the time in rollouts and updates is on record, "
            "without checkpoints and whatever else lies between updates"
        )


def _lengths(sides: Sequence[Side], by: Axis, budget: float | None) -> Iterator[str]:
    """That runs are of different length, and where they are held against each other."""
    ends = {it.view.name: it.trace.axis(by)[-1] for it in sides if it.trace.values and not it.trace.broken}
    if budget is None or not ends or max(ends.values()) <= _ALIKE * budget:
        return
    shortest, longest = min(ends, key=ends.__getitem__), max(ends, key=ends.__getitem__)
    unit = "timesteps" if by == "step" else "s of training"
    yield (
        f"the runs are of different length: settings are compared at {budget:,.0f} {unit}, where {shortest} stands; "
        f"without it they are compared at more ({longest} has {ends[longest]:,.0f})"
    )
