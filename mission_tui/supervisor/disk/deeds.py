"""What people did to a run, out of its journal: the log of their actions, oldest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mission_tui.fleet.events import (
    Asked,
    FindingMarked,
    FleetEvent,
    HealthActed,
    RunLabelled,
    RunNoted,
    RunRenamed,
    SettingsAsked,
)
from mission_tui.fleet.lineage import diff_of
from mission_tui.fleet.run_history import NOTE_CHARS
from mission_tui.fleet.text import clean
from mission_tui.ipc.replies import Deed

__all__ = ["deeds_of"]

SHOWN = 50


def deeds_of(events: Sequence[FleetEvent]) -> tuple[Deed, ...]:
    """The newest deeds."""
    return tuple(_deeds(events))[-SHOWN:]


def _deeds(events: Sequence[FleetEvent]) -> Iterator[Deed]:
    for event in events:
        match event:
            case Asked():
                yield Deed(t=event.t, what=event.verb)
            case SettingsAsked():
                yield Deed(t=event.t, what="set", detail=", ".join(diff_of(event.changes)))
            case RunRenamed():
                yield Deed(t=event.t, what="rename", detail=clean(event.name))
            case RunNoted():
                yield Deed(t=event.t, what="note", detail=clean(event.text, NOTE_CHARS))
            case RunLabelled():
                words = [*(f"+{label}" for label in event.added), *(f"-{label}" for label in event.removed)]
                yield Deed(t=event.t, what="label", detail=clean(" ".join(words)))
            case FindingMarked():
                yield Deed(t=event.t, what=event.mark, detail=clean(event.rule or event.finding))
            case HealthActed(act="applied"):
                yield Deed(t=event.t, what="apply", detail=clean(f"{event.finding} {event.detail}"))
