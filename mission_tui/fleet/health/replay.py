"""Judging a run again from what its files say. It gives the incidents that were journaled while the run lived.

Each attempt is judged by its own spec, its breaks come from `events.jsonl`, and how the two files were read does not
matter: records count by `seq`, breaks by their time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field

from mission_tui.fleet.events import journal
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import Break, declared_breaks
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.fleet.health import gpu_idle, out_of_memory, thread_contention
from mission_tui.fleet.health.hang import Hang
from mission_tui.fleet.health.judge import HealthJudge, judge_of
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.spec import Spec

IN_THE_JOURNAL_ALONE = (thread_contention.ID, gpu_idle.ID, out_of_memory.ID)
"""Rules that no row shows."""
_OF_AN_ATTEMPT = journal.RunPaused | journal.RunResumed | journal.RunFrozen | journal.RunThawed | journal.ClockStepped


class _Attempt(Struct):
    """What the files say of one attempt; `lived_t` is until when (unix time) its trainer is known to have lived.

    `seen` are findings of what the machine did, which no row shows: they are as they were journaled.
    """

    records: list[MetricRecord] = field(default_factory=list)
    breaks: list[tuple[float, Break]] = field(default_factory=list)
    changes: tuple[Change, ...] = ()
    lived_t: float = 0.0
    seen: dict[str, Finding] = field(default_factory=dict)


def replay(
    specs: Mapping[int, Spec],
    records: Iterable[MetricRecord],
    events: Iterable[journal.FleetEvent],
    died: Mapping[int, float] | None = None,
    passing: Callable[[Sequence[MetricRecord]], Iterable[MetricRecord]] = iter,
) -> tuple[Finding, ...]:
    """Every incident of a run, oldest first; those of the last attempt that are not over are open until its last row.

    `specs` has the spec of each attempt (attempts without one are not judged, as they were not when they lived), `died`
    the unix time of each attempt's exit record: until then a silent trainer lived. Where a machine went down and left
    no such record, the journal's own word that a trainer hung says how long it lived. `passing` sees each record of an
    attempt just before that is judged: of a million that takes minutes.
    """
    attempts = _sorted(records, events)
    for number, t in (died or {}).items():
        if number in attempts:
            attempts[number].lived_t = max(t, attempts[number].lived_t)
    found: list[Finding] = []
    last = max(attempts, default=0)
    for number, told in sorted(attempts.items()):
        if number in specs:
            found += _judged(judge_of(specs[number]), told, passing, over=number < last)
    return tuple(found)


def _judged(
    judge: HealthJudge,
    told: _Attempt,
    passing: Callable[[Sequence[MetricRecord]], Iterable[MetricRecord]],
    *,
    over: bool,
) -> Iterable[Finding]:
    """Every incident of one attempt as it was last judged, also those that a judge forgets."""
    known: dict[str, Finding] = {}
    judge.resumed_with(told.changes)
    for t, cause in told.breaks:
        judge.broken(t, cause)
    for record in passing(told.records):
        known |= {finding.id: finding for finding in judge.feed(record)}
    known |= {finding.id: finding for finding in judge.silence(told.lived_t)}
    if over:
        known |= {finding.id: finding for finding in judge.close()}
    known |= {finding.id: finding for finding in judge.findings if finding.state == "open"}
    return (known | told.seen).values()


def _sorted(records: Iterable[MetricRecord], events: Iterable[journal.FleetEvent]) -> dict[int, _Attempt]:
    attempts: dict[int, _Attempt] = {}
    for record in {record.seq: record for record in sorted(records, key=lambda record: record.seq)}.values():
        attempts.setdefault(record.attempt, _Attempt()).records.append(record)
    now = _Attempt()
    number = 0
    for event in sorted(events, key=lambda event: event.seq):
        if isinstance(event, journal.AttemptStarting):
            number = event.attempt
            now = attempts.setdefault(number, _Attempt())
            now.changes = event.changes
        elif isinstance(event, journal.FindingChanged):
            if event.finding.rule == Hang.id and event.finding.state != "cleared":
                # Until then and not until it was journaled: who caught up on a silence says so long after it.
                now.lived_t = max(now.lived_t, math.nextafter(event.finding.first_t or event.t, math.inf))
            elif event.finding.rule in IN_THE_JOURNAL_ALONE:
                # Another attempt closes those of the one before it.
                attempts.get(event.finding.attempt, now).seen[event.finding.id] = event.finding
        elif not isinstance(event, _OF_AN_ATTEMPT) or event.attempt == number:
            now.breaks += declared_breaks(event)
    return attempts
