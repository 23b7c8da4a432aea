"""What was done to a run and by whom, out of its journal: people, rules and its own restarts, oldest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from mission_tui.fleet.events.journal import (
    Asked,
    AttemptEnded,
    AttemptStarting,
    ClockStepped,
    DutyDoneSeen,
    DutyFailureSeen,
    FindingChanged,
    FindingMarked,
    FleetEvent,
    HealthActed,
    PriorityAsked,
    RestartDue,
    RunCreated,
    RunFrozen,
    RunLabelled,
    RunNoted,
    RunParked,
    RunRenamed,
    RunThawed,
    SettingsAsked,
)
from mission_tui.fleet.events.lineage import diff_of
from mission_tui.fleet.events.outcome import outcome_word
from mission_tui.fleet.history.run import NOTE_CHARS
from mission_tui.fleet.text import clean
from mission_tui.ipc.replies import AuditEntry

__all__ = ["audit_log_of"]

SHOWN = 200
_ITSELF = "the run's own rule"
_OUTSIDE = "outside, by a signal"


def audit_log_of(events: Sequence[FleetEvent]) -> tuple[AuditEntry, ...]:
    """The newest deeds."""
    rules = {event.finding.id: event.finding.rule for event in events if isinstance(event, FindingChanged)}
    return tuple(deed for event in _by_people(events) for deed in _entries(event, rules))[-SHOWN:]


def _by_people(events: Sequence[FleetEvent]) -> Iterator[FleetEvent]:
    """All but what was asked for by a rule: its next line tells that it was."""
    for event, following in pairwise((*events, None)):
        by_rule = isinstance(event, Asked) and isinstance(following, HealthActed) and following.act == event.verb
        if event is not None and not by_rule:
            yield event


def _entries(event: FleetEvent, rules: dict[str, str]) -> Iterator[AuditEntry]:
    match event:
        case RunCreated():
            origin = event.origin.sentence if event.origin is not None else f"preset {event.preset}"
            after = f", to begin after {', '.join(event.after)}" if event.after else ""
            yield AuditEntry(t=event.t, what="launch", detail=clean(origin + after, NOTE_CHARS), by=event.asker)
        case AttemptStarting() if event.attempt > 1:
            yield _attempt(event)
        case Asked():
            yield AuditEntry(t=event.t, what=event.verb, by=event.asker)
        case SettingsAsked():
            yield AuditEntry(t=event.t, what="set", detail=", ".join(diff_of(event.changes)), by=event.asker)
        case PriorityAsked():
            yield AuditEntry(t=event.t, what="priority", detail=str(event.priority), by=event.asker)
        case RunRenamed():
            yield AuditEntry(t=event.t, what="rename", detail=clean(event.name), by=event.asker)
        case RunNoted():
            yield AuditEntry(t=event.t, what="note", detail=clean(event.text, NOTE_CHARS), by=event.asker)
        case RunLabelled():
            words = [*(f"+{label}" for label in event.added), *(f"-{label}" for label in event.removed)]
            yield AuditEntry(t=event.t, what="label", detail=clean(" ".join(words)), by=event.asker)
        case FindingMarked():
            yield AuditEntry(t=event.t, what=event.mark, detail=clean(event.rule or event.finding), by=event.asker)
        case HealthActed(act="applied"):
            detail = clean(f"{event.finding} {event.detail}")
            yield AuditEntry(t=event.t, what="apply", detail=detail, by=event.asker)
        case HealthActed(failed=name) if name:
            yield AuditEntry(t=event.t, what="failed", detail=clean(event.detail, NOTE_CHARS))
        case HealthActed():
            rule = rules.get(event.finding, event.finding)
            yield AuditEntry(t=event.t, what=event.act, detail=clean(event.detail), by=clean(f"rule {rule}"))
        case _:
            yield from _unasked(event)


def _unasked(event: FleetEvent) -> Iterator[AuditEntry]:
    """What nobody asked for here, and how attempts ended: without it one does not understand what people did then."""
    match event:
        case DutyFailureSeen():
            yield AuditEntry(t=event.t, what="failed", detail=clean(f"{event.duty}: {event.why}", NOTE_CHARS))
        case DutyDoneSeen():
            yield AuditEntry(
                t=event.t, what="done again", detail=clean(f"{event.duty}, after {event.times} failures", NOTE_CHARS)
            )
        case RestartDue():
            detail = f"{event.number} of {event.most} in a row, in {max(0.0, event.due_t - event.t):.0f} s"
            yield AuditEntry(t=event.t, what="restart due", detail=f"{detail}, after a {event.after}", by=_ITSELF)
        case RunParked():
            yield AuditEntry(t=event.t, what="park", detail=clean(event.why), by=_ITSELF)
        case ClockStepped():
            how = "forward" if event.by_s > 0.0 else "back"
            yield AuditEntry(t=event.t, what="clock set", detail=f"{abs(event.by_s):.0f} s {how}", by=_OUTSIDE)
        case RunFrozen(by="outside"):
            yield AuditEntry(t=event.t, what="freeze", by=_OUTSIDE)
        case RunThawed(by="outside"):
            yield AuditEntry(t=event.t, what="thaw", by=_OUTSIDE)
        case AttemptEnded():
            cause = f"{outcome_word(event.outcome)}: {event.outcome.cause}".removesuffix(": ")
            yield AuditEntry(t=event.t, what="ended", detail=clean(cause, NOTE_CHARS))


def _attempt(event: AttemptStarting) -> AuditEntry:
    again = bool(event.restart or event.reboots)
    origin = f"attempt {event.attempt} from {event.checkpoint or 'scratch'}"
    detail = ", ".join((origin, *diff_of(event.changes)))
    by = event.asker or (_ITSELF if again else "")
    return AuditEntry(t=event.t, what="restart" if again else "resume", detail=clean(detail, NOTE_CHARS), by=by)
