"""The whole comparison: results of each run, seeds of one setting together, what differs, and what to mind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from msgspec import Struct

from mission_tui.errors import UsageError
from mission_tui.fleet.compare.differing import Row, cohort_key, differing_provenance, differing_settings
from mission_tui.fleet.compare.ranking import (
    LEAST_SEEDS,
    Contrast,
    Ranked,
    Spread,
    contrast_of,
    is_return,
    ranked,
    spread_of,
)
from mission_tui.fleet.compare.results import (
    MEASURES,
    POINTS,
    Axis,
    Curve,
    Edges,
    Result,
    Side,
    band_of,
    curve_of,
    result_of,
    shared_span,
)
from mission_tui.fleet.events.outcome import ALIVE, OVER
from mission_tui.fleet.text import clean

MOST = 64
"""Runs of one comparison: as many as one launch makes."""

_LETTERS = 26
_OF_THE_MACHINE = ("steps_per_s",)
_CONTRASTED = ("best", "final", "area", *_OF_THE_MACHINE)
_MACHINE = {"host", "cpu", "cores", "gpus"}
_OTHER_TASK = ("env.id",)
_OTHER_RETURNS = ("env.kwargs", "env.config", "env.wrappers")


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

    `curves` has one for each run, in order; `bands` one for each cohort of two runs or more that has any. `ranking` is
    empty for one cohort, for a metric of which it is not known that more is better, and for different tasks.
    """

    metric: str
    by: Axis
    threshold: float | None
    span: tuple[float, float] | None
    runs: tuple[Compared, ...]
    cohorts: tuple[Cohort, ...]
    contrasts: tuple[Contrast, ...]
    ranking: tuple[Ranked, ...]
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

    Raises `UsageError` for a metric that no run has.
    """
    known = frozenset[str]().union(*(side.trace.tags for side in sides))
    if known and not any(side.trace.values for side in sides):
        raise UsageError(f"none of these runs has a value of '{metric}'; they have {', '.join(sorted(known))}")
    if threshold is None:
        said = {side.threshold for side in sides}
        threshold = said.pop() if len(said) == 1 and is_return(metric) else None
    bands = (
        band_of(_name(members, sides), [sides[at].trace for at in _one_a_seed(members, sides)], by, points, edges)
        for members in _grouped(sides)
    )
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
    cohorts = tuple(_cohort(members, sides, results) for members in groups)
    place_of = {place: number for number, members in enumerate(groups) for place in members}
    return Comparison(
        metric=metric,
        by=by,
        threshold=threshold,
        span=span,
        runs=tuple(
            _compared(side, result, place_of[at]) for at, (side, result) in enumerate(zip(sides, results, strict=True))
        ),
        cohorts=cohorts,
        contrasts=tuple(_contrasts(cohorts, groups, sides, results, _CONTRASTED if one_task else _OF_THE_MACHINE)),
        ranking=_ranking(groups, sides, results, settings) if is_return(metric) and one_task else (),
        settings=settings,
        provenance=provenance,
        notes=tuple(_notes(sides, cohorts, {row.name for row in settings + provenance}, span, metric)),
        curves=drawing.curves,
        bands=tuple(band for band in drawing.bands if band is not None),
    )


def _grouped(sides: Sequence[Side]) -> list[list[int]]:
    """Places of the runs of each cohort, in order of the first of each."""
    groups: dict[bytes, list[int]] = {}
    for place, side in enumerate(sides):
        groups.setdefault(cohort_key(side.spec), []).append(place)
    return list(groups.values())


def _compared(side: Side, result: Result, cohort: int) -> Compared:
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
    return Cohort(
        name=_name(members, sides),
        runs=tuple(sides[at].view.id for at in members),
        seeds=tuple(sides[at].spec.run.seed for at in counted),
        spreads={name: spread for name, spread in spreads.items() if spread is not None},
        live=sum(sides[at].view.state in ALIVE for at in members),
    )


def _contrasts(
    cohorts: Sequence[Cohort],
    groups: Sequence[Sequence[int]],
    sides: Sequence[Side],
    results: Sequence[Result],
    measures: Sequence[str],
) -> Iterator[Contrast]:
    """Each further setting against the first in each of `measures`, where both have seeds enough."""
    for cohort, members in zip(cohorts[1:], groups[1:], strict=True):
        for measure in measures:
            counted = (_one_a_seed(side, sides) for side in (members, groups[0]))
            values, against = ([getattr(results[at], measure) for at in side] for side in counted)
            found = contrast_of(values, against)
            if found is not None:
                difference, low, high = found
                yield Contrast(
                    group=cohort.name,
                    against=cohorts[0].name,
                    measure=measure,
                    difference=difference,
                    interval=(low, high),
                    sure=low > 0 or high < 0,
                )


def _ranking(
    groups: Sequence[Sequence[int]], sides: Sequence[Side], results: Sequence[Result], settings: Sequence[Row]
) -> tuple[Ranked, ...]:
    if len(groups) < 2:
        return ()
    finals = [[results[at].final for at in _one_a_seed(members, sides)] for members in groups]
    return ranked(finals, [members[0] for members in groups], settings)


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
    if names & set(_OTHER_TASK):
        yield "the tasks differ (env.id): their returns cannot be compared"
    elif any(name == key or name.startswith(f"{key}.") for name in names for key in _OTHER_RETURNS):
        yield "the environments differ in their settings: the same return may not mean the same"
    if names & _MACHINE:
        yield "the machines differ: speeds and times cannot be compared"
    for cohort in cohorts:
        if len(cohort.seeds) < len(cohort.runs):
            yield f"{cohort.name}: runs with the same seed count as one, the one that went furthest"
    if len(cohorts) > 1:
        yield from _sureness(cohorts)
    if going_on := [side.view.name for side in sides if side.view.state not in OVER]:
        yield f"{', '.join(going_on)} {'has' if len(going_on) == 1 else 'have'} not ended: numbers so far"
    if without := [side.view.name for side in sides if not side.trace.values]:
        yield f"no value of {clean(metric)} yet: {', '.join(without)}"
    if span is None and all(side.trace.values for side in sides):
        yield "the curves have no part of the axis in common, so there are no areas"
    unknown = [side.view.name for side in sides if side.provenance is None]
    if unknown:
        yield f"{', '.join(unknown)}: code and packages at launch are not recorded"


def _sureness(cohorts: Sequence[Cohort]) -> Iterator[str]:
    alone = [cohort.name for cohort in cohorts if len(cohort.seeds) == 1]
    few = [cohort.name for cohort in cohorts if 1 < len(cohort.seeds) < LEAST_SEEDS]
    if len(alone) == len(cohorts):
        yield "1 seed of each setting: no interval, and a difference may come from the seeds alone"
        return
    if alone:
        yield f"1 seed of {', '.join(alone)}: no interval"
    if few:
        yield f"2 seeds of {', '.join(few)}: no interval (3 are the least)"
