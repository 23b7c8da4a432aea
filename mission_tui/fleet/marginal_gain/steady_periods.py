"""Who trained when, the stretches of time in which the same runs trained and none was just starting, and how many steps
per second they did together, in equal cells of time.

A run disturbs others from its hand-over to a keeper, but counts only once it is warm: the time between is left out.
Runs on one machine take from each other, so their noise is not independent: summing first and taking the spread of the
sums is honest where adding up the spread of each is not.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.spec import other_settings

WARM_S = 5.0
"""The first update of an attempt, and what follows so soon, fills caches and starts threads: it is not timed."""
LEAST_CELL_S = 2.0
"""No cell is shorter, nor than an update of the slowest run: within one nobody knows where its steps lie."""
LEAST_COVER = 0.5


@dataclass(frozen=True, slots=True)
class TrainingSpan:
    """One stay of a run among those that train, in unix seconds.

    It comes at `since` (its keeper was asked for, or it goes on after a pause), counts from `warm` on (None while it
    starts and warms up) and is gone at `until` (it ended or is held; None while it is there). `kind` is equal for runs
    of which one step costs as much as another's.
    """

    run: str
    since: float
    warm: float | None
    until: float | None = None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class SteadyPeriod:
    """From `begin` to `end` (unix s) the warm runs were `runs`, and nobody came or went; `open` until now."""

    begin: float
    end: float
    runs: frozenset[str]
    open: bool = False


def steady_periods(stays: Iterable[TrainingSpan], now: float) -> list[SteadyPeriod]:
    """Every stretch up to `now` in which at least one run trained, oldest first."""
    found: list[SteadyPeriod] = []
    here: set[str] = set()
    coming: set[TrainingSpan] = set()
    begun = float("-inf")
    for t, what, span in sorted(_turns(stays, now), key=lambda turn: (turn[0], turn[1] != "gone")):
        if here and not coming and t > begun:
            found.append(SteadyPeriod(begun, t, frozenset(here)))
        begun = t
        match what:
            case "comes":
                coming.add(span)
            case "warm":
                coming.discard(span)
                here.add(span.run)
            case _:
                coming.discard(span)
                if span.warm is not None and span.warm <= t:
                    here.discard(span.run)
    if here and not coming and now > begun:
        found.append(SteadyPeriod(begun, now, frozenset(here), open=True))
    return found


def _turns(stays: Iterable[TrainingSpan], now: float) -> Iterable[tuple[float, str, TrainingSpan]]:
    for span in stays:
        if span.since > now:
            continue
        yield span.since, "comes", span
        until = span.until
        if span.warm is not None and span.warm <= now and (until is None or span.warm < until):
            yield span.warm, "warm", span
        if until is not None and until <= now:
            yield until, "gone", span


def training_spans_of(run: RunHistory) -> Iterator[TrainingSpan]:
    """When the newest attempt of `run` was one of those that train; from another setting on it is another run."""
    journal, spec = run.journal, run.spec
    silent = spec is not None and spec.run.command is not None and run.metrics.row is None
    if journal.attempt == 0 or journal.started_t is None or silent:
        return
    since: float | None = journal.started_t
    for t, ends, begins in _cuts(run):
        if ends and since is not None:
            yield _stay(run, since, t)
            since = None
        since = t if begins and since is None else since
    if since is not None:
        yield _stay(run, since, journal.ended_t)


def _cuts(run: RunHistory) -> list[tuple[float, bool, bool]]:
    """When a stay of the attempt ends, or another begins, or both at once."""
    held = [(t, cause in ("pause", "freeze"), cause in ("unpause", "thaw")) for t, cause in run.journal.breaks]
    started_t = run.journal.started_t or 0.0
    return sorted(held + [(each.t, True, True) for each in run.metrics.sets if each.t >= started_t])


def _stay(run: RunHistory, since: float, until: float | None) -> TrainingSpan:
    first_t = run.metrics.columns.first_t(since)
    return TrainingSpan(run.id, since, None if first_t is None else first_t + WARM_S, until, _kind(run))


def _kind(run: RunHistory) -> str:
    """Equal for runs of which a step costs the same; what merely learns otherwise is no difference."""
    spec = run.spec
    if spec is None:
        return run.id
    if spec.run.command is not None:
        return spec.preset
    ppo, how = spec.ppo, spec.run
    work: tuple[object, ...] = (
        ppo.algo,
        ppo.policy,
        ppo.n_steps,
        ppo.n_epochs,
        ppo.batch_size,
        ppo.net_arch,
        ppo.use_sde,
    )
    if (settings := other_settings(spec)) is not None:
        work = (how.algo, settings)
    return repr((spec.env, work, how.engine, how.device, how.precision, how.compile, how.threads))


@dataclass(frozen=True, slots=True)
class Span:
    """One update, from `begin` to `end` (unix s), at `steps_per_s`."""

    begin: float
    end: float
    steps_per_s: float


def cell_s(spans: Mapping[str, Sequence[Span]]) -> float:
    """Seconds of a cell for runs whose updates took as long as `spans` did."""
    typical = [statistics.median(span.end - span.begin for span in each) for each in spans.values() if each]
    return max(LEAST_CELL_S, max(typical, default=0.0))


def summed(
    spans: Mapping[str, Sequence[Span]], period: SteadyPeriod, seconds: float, most: int, *, backwards: bool = False
) -> list[float]:
    """Summed steps per second of all runs of `spans` in the first `most` cells of the stretch, `seconds` long each.

    `backwards`: in the last ones, counted from its end. Only updates that lie wholly in the stretch count, and only
    cells of which every run was seen updating for half the time or more: evaluations and pauses are left out.
    """
    count = min(most, int((period.end - period.begin) / seconds))
    begin = period.end - count * seconds if backwards else period.begin
    rates = [_rates(each, period, begin, seconds, count) for each in spans.values()]
    known = [cell for cell in zip(*rates, strict=True) if None not in cell]
    return [sum(rate for rate in cell if rate is not None) for cell in known]


def _rates(spans: Sequence[Span], period: SteadyPeriod, begin: float, seconds: float, count: int) -> list[float | None]:
    covered, steps = [0.0] * count, [0.0] * count
    for span in spans:
        if span.begin < period.begin or span.end > period.end:
            continue
        first, last = int((span.begin - begin) // seconds), int((span.end - begin) // seconds)
        for cell in range(max(0, first), min(count - 1, last) + 1):
            left = begin + cell * seconds
            shared = min(span.end, left + seconds) - max(span.begin, left)
            covered[cell] += shared
            steps[cell] += shared * span.steps_per_s
    return [
        done / cover if cover >= LEAST_COVER * seconds else None for done, cover in zip(steps, covered, strict=True)
    ]
