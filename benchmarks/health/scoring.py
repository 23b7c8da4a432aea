"""Score per incident: which were true, which sick runs were found and how late, and how sure one can be of it.

An incident is true if it opened in a run's sick part, or overlaps a dated event, within the tolerance of its rule.
Rates of false incidents are per 1,000 healthy updates, the part before the onset of a sick run included; intervals are
bootstraps over runs, because updates of one run are not independent.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from benchmarks.health.cases import Case, Incident
from benchmarks.health.halves import STATED

__all__ = [
    "TOLD",
    "Found",
    "Rate",
    "Scored",
    "as_healthy",
    "false_rate",
    "found",
    "healthy_updates",
    "is_true",
    "only_states",
    "precision",
    "score",
    "sought",
    "total",
]

TOLERANCE = {"stall": 50, "drawdown": 50, "reward-oscillation": 50, "outcomes": 50, "explained-variance": 50}
SHARP = 10
MACHINE = ("throughput", "hang")
TOLD = frozenset({"kl-creep", "plateau"})
"""Rules that only inform: they call nobody, so they neither find a run nor raise a false alarm."""
RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Scored:
    """One case and what was said about it."""

    case: Case
    incidents: tuple[Incident, ...]

    @property
    def called(self) -> tuple[Incident, ...]:
        """Warnings and criticals: what calls somebody."""
        return tuple(incident for incident in self.incidents if incident.level != "info")

    @property
    def alarms(self) -> tuple[Incident, ...]:
        """Those that are counted: of an unclear run only what came before something was done to it."""
        if not self.case.unclear:
            return self.called
        return tuple(it for it in self.called if it.first < (self.case.onset or 0) - TOLERANCE.get(it.rule, SHARP))


@dataclass(frozen=True, slots=True)
class Rate:
    """False incidents: how many, in how many runs, per 1,000 healthy updates, with a 95 % interval over runs."""

    count: int
    runs: int
    per_1000: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Found:
    """Sick runs of one construction: how many there are, how many a right rule found, and how late.

    Delays are medians in updates: from what was done to the run, and from when its harm was there to be seen.
    """

    kind: str
    positives: int
    hits: int
    delay: float | None
    delay_to_harm: float | None
    rules: tuple[str, ...]

    @property
    def recall(self) -> float | None:
        """Share of the positives that were found; None without positives."""
        return self.hits / self.positives if self.positives else None


def sought(scored: Iterable[Scored]) -> list[Scored]:
    """Sick runs that a warning should find: those whose trouble more than informing rules are about."""
    return [one for one in scored if one.case.sick_from is not None and not TOLD.issuperset(one.case.rules)]


def total(scored: Sequence[Scored]) -> Found:
    """All constructions together."""
    return _found("all", sought(scored))


def score(cases: Iterable[Case], judge: Callable[[Case], tuple[Incident, ...]]) -> tuple[Scored, ...]:
    """Let `judge` look at every case."""
    return tuple(Scored(case, judge(case)) for case in cases)


def as_healthy(scored: Iterable[Scored]) -> list[Scored]:
    """The same, with unclear runs counted as healthy ones: the strictest that can be said of what is false."""
    return [replace(one, case=replace(one.case, label="healthy")) if one.case.unclear else one for one in scored]


def is_true(case: Case, incident: Incident) -> bool:
    """Whether something was really wrong there."""
    slack = TOLERANCE.get(incident.rule, SHARP)
    until = math.inf if case.sick_until is None else case.sick_until
    if case.sick_from is not None and case.sick_from - slack <= incident.first <= until + slack:
        return True
    if incident.rule in MACHINE and any(_meets(incident, first, last, SHARP) for first, last in case.busy):
        return True
    return any(_meets(incident, event.onset, event.end, slack) for event in case.events)


def only_states(case: Case, incident: Incident) -> bool:
    """Whether a false incident is no error: it says of a harmless change nothing but what was done (`STATED`)."""
    return case.onset is not None and incident.rule in STATED.get(case.kind, ()) and incident.first >= case.onset


@cache
def healthy_updates(case: Case) -> int:
    """Updates in which nothing was wrong: all of a healthy run, a sick one's before the onset and after what passed,
    and an unclear one's before something was done to it.
    """
    if case.unclear:
        return sum(1 for row in case.rows if row.update < (case.onset or 0))
    if case.sick_from is None:
        return sum(1 for _ in case.rows)
    until = math.inf if case.sick_until is None else case.sick_until
    return sum(1 for row in case.rows if not case.sick_from <= row.update <= until)


def false_rate(
    scored: Sequence[Scored], levels: Sequence[str], rules: Sequence[str] = (), *, stated_too: bool = True
) -> Rate:
    """The rate of false incidents of `levels` (and of `rules` only, if any are named).

    Without `stated_too`, those are left out that only state what was done.
    """

    def counts(case: Case, incident: Incident) -> bool:
        wanted = incident.level in levels and (not rules or incident.rule in rules)
        return wanted and not is_true(case, incident) and (stated_too or not only_states(case, incident))

    runs = [(sum(counts(one.case, it) for it in one.alarms), healthy_updates(one.case)) for one in scored]
    runs = [(count, updates) for count, updates in runs if updates or count]
    resampled = [0.0]
    if any(count for count, _ in runs):
        wrong, lengths = np.array(runs).T
        drawn = _draws(len(runs))
        resampled = sorted(map(_per_1000, wrong[drawn].sum(axis=1).tolist(), lengths[drawn].sum(axis=1).tolist()))
    false = sum(count for count, _ in runs)
    return Rate(
        count=false,
        runs=sum(count > 0 for count, _ in runs),
        per_1000=_per_1000(false, sum(updates for _, updates in runs)),
        low=resampled[int(0.025 * (len(resampled) - 1))],
        high=resampled[int(0.975 * (len(resampled) - 1))],
    )


def found(scored: Sequence[Scored]) -> tuple[Found, ...]:
    """Recall and median delay of each construction, by its right rules alone."""
    asked = sought(scored)
    kinds = dict.fromkeys(one.case.kind for one in asked)
    return tuple(_found(kind, [one for one in asked if one.case.kind == kind]) for kind in kinds)


def precision(
    scored: Sequence[Scored], *, right_rules_only: bool = False, on_their_own: bool = False
) -> tuple[int, int]:
    """True incidents, and all of them; with `right_rules_only` one in a sick part needs to be a right answer too.

    With `on_their_own` those that are told as symptoms of others are not counted.
    """
    true = total = 0
    for one in scored:
        for incident in one.alarms:
            if on_their_own and incident.below:
                continue
            total += 1
            sick = one.case.sick_from is not None
            right = not right_rules_only or not sick or not one.case.rules or incident.rule in one.case.rules
            true += is_true(one.case, incident) and right
    return true, total


def _found(kind: str, scored: Sequence[Scored]) -> Found:
    positives = [one for one in scored if one.case.sick_from is not None]
    delays: list[int] = []
    after_harm: list[int] = []
    hit_by: dict[str, None] = {}
    for one in positives:
        onset = one.case.sick_from or 0
        hits = [
            incident
            for incident in one.alarms
            if incident.rule in one.case.rules and incident.first >= onset - TOLERANCE.get(incident.rule, SHARP)
        ]
        if hits:
            first = min(incident.first for incident in hits)
            delays.append(max(0, first - onset))
            after_harm.append(first - (one.case.harm_from or onset))
            hit_by |= dict.fromkeys(incident.rule for incident in hits)
    return Found(
        kind=kind,
        positives=len(positives),
        hits=len(delays),
        delay=statistics.median(delays) if delays else None,
        delay_to_harm=statistics.median(after_harm) if after_harm else None,
        rules=tuple(hit_by),
    )


def _meets(incident: Incident, first: int, last: int, slack: int) -> bool:
    return incident.first <= last + slack and incident.last >= first - slack


@cache
def _draws(runs: int) -> npt.NDArray[np.int64]:
    """Which of so many runs each resample has: the same for every rate, and drawn once."""
    dice = random.Random(0)
    return np.array([dice.choices(range(runs), k=runs) for _ in range(RESAMPLES)])


def _per_1000(count: int, updates: int) -> float:
    return 1000.0 * count / updates if updates else 0.0
