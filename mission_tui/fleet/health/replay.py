"""Judging a run again from what its files say. It gives the incidents that were journaled while the run lived.

Each attempt is judged by its own spec, its breaks come from `events.jsonl`, and how the two files were read does not
matter: records count by `seq`, breaks by their time. Rows are judged as they come, so that a long run's need not be in
memory at once.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from mission_tui.fleet.events import journal
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import Break, declared_breaks
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.events.outcome import Finished, Stopped
from mission_tui.fleet.events.provenance import IMPORTED
from mission_tui.fleet.health import gpu_idle, out_of_memory, thread_contention
from mission_tui.fleet.health.hang import FEWEST, UPDATES, Hang
from mission_tui.fleet.health.judge import HealthJudge, judge_of
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.spec import Spec

IN_THE_JOURNAL_ALONE = (thread_contention.ID, gpu_idle.ID, out_of_memory.ID)
"""Rules that no row shows."""
_OF_AN_ATTEMPT = journal.RunPaused | journal.RunResumed | journal.RunFrozen | journal.RunThawed | journal.ClockStepped


class _Attempt(Struct):
    """What the journal says of one attempt; `lived_t` is until when (unix time) its trainer is known to have lived.

    `seen` are findings of what the machine did, which no row shows: they are as they were journaled. An `imported` one
    was logged by another program.
    """

    breaks: list[tuple[float, Break]] = field(default_factory=list)
    changes: tuple[Change, ...] = ()
    lived_t: float = 0.0
    seen: dict[str, Finding] = field(default_factory=dict)
    imported: bool = False


def replay(
    specs: Mapping[int, Spec],
    records: Iterable[MetricRecord],
    events: Iterable[journal.FleetEvent],
    died: Mapping[int, float] | None = None,
) -> tuple[Finding, ...]:
    """Every incident of a run, oldest first; those of the last attempt that are not over are open until its last row.

    `specs` has the spec of each attempt (attempts without one are not judged, as they were not when they lived), `died`
    the unix time of each attempt's exit record: until then a silent trainer lived. Where a machine went down and left
    no such record, the journal's own word that a trainer hung says how long it lived. `records` that are no sequence
    are taken in the order in which they come, each once.
    """
    attempts = _attempts(events)
    judging: dict[int, _Judging] = {}
    found: dict[int, tuple[Finding, ...]] = {}
    last, newest = max(attempts, default=0), 0
    for record in _in_order(records):
        if record.attempt < newest:
            continue  # as in life: who is followed by another attempt writes nothing more
        newest, last = record.attempt, max(last, record.attempt)
        for number in [it for it in judging if it < newest]:
            found[number] = judging.pop(number).ended(over=True)
        if newest in specs:
            if newest not in judging:
                told = attempts.pop(newest, None) or _Attempt()
                told.lived_t = max(told.lived_t, (died or {}).get(newest, 0.0))
                judging[newest] = _Judging(specs[newest], told)
            judging[newest].feed(record)
    for number, told in attempts.items():
        if number in specs and number not in found:
            judging[number] = _Judging(specs[number], told)
    found |= {number: it.ended(over=number < last) for number, it in judging.items()}
    return tuple(finding for number in sorted(found) for finding in found[number])


class _Judging:
    """One attempt that is judged, with every incident as it was last judged, also those that a judge forgets."""

    def __init__(self, spec: Spec, told: _Attempt) -> None:
        self._judge, self._told = judge_of(spec), told
        self._judge.resumed_with(told.changes)
        for t, cause in told.breaks:
            self._judge.broken(t, cause)
        self._missing = MissingRows(self._judge) if told.imported else None
        self._known: dict[str, Finding] = {}

    def feed(self, record: MetricRecord) -> None:
        if self._missing is not None and isinstance(record, UpdateDone):
            self._missing.tell(record)
        self._known |= {finding.id: finding for finding in self._judge.feed(record)}

    def ended(self, *, over: bool) -> tuple[Finding, ...]:
        judge, known = self._judge, self._known
        known |= {finding.id: finding for finding in judge.silence(self._told.lived_t)}
        if over:
            known |= {finding.id: finding for finding in judge.close()}
        known |= {finding.id: finding for finding in judge.findings if finding.state == "open"}
        return tuple((known | self._told.seen).values())


class MissingRows:
    """Tells `judge` of time that passed in rows which are not in a log of others, as nobody's silence: a row of many
    rows' steps has as many behind it. One row's share of that time stays.
    """

    def __init__(self, judge: HealthJudge) -> None:
        self._judge = judge
        self._steps: deque[int] = deque(maxlen=UPDATES)
        self._last: UpdateDone | None = None

    def tell(self, row: UpdateDone) -> None:
        """Before `row` is judged."""
        last, self._last = self._last, row
        if last is None or last.attempt != row.attempt:
            self._steps.clear()
            return
        steps = row.timesteps - last.timesteps
        usual = statistics.median(self._steps) if len(self._steps) >= FEWEST else 0
        rows = round(steps / usual) if usual > 0 else 1
        if rows > 1 and row.t > last.t > 0.0:
            self._judge.broken(row.t - (row.t - last.t) * (rows - 1) / rows, "step")
            self._judge.broken(row.t, "stepped")
        self._steps.append(steps)


def _in_order(records: Iterable[MetricRecord]) -> Iterator[MetricRecord]:
    seq = -1
    for record in sorted(records, key=lambda it: it.seq) if isinstance(records, Sequence) else records:
        if record.seq > seq:
            seq = record.seq
            yield record


def _attempts(events: Iterable[journal.FleetEvent]) -> dict[int, _Attempt]:
    attempts: dict[int, _Attempt] = {}
    now = _Attempt()
    number = 0
    for event in sorted(events, key=lambda event: event.seq):
        if isinstance(event, journal.AttemptStarting):
            number = event.attempt
            now = attempts.setdefault(number, _Attempt())
            now.changes = event.changes
        elif isinstance(event, journal.AttemptEnded):
            outcome = event.outcome
            if event.attempt == number:
                now.imported = isinstance(outcome, Finished | Stopped) and outcome.cause == IMPORTED
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
