"""What is news in a snapshot: critical findings that were not there before, and what dead runs left behind. Pure.

Each is told once, and of findings never what was there when the screen was opened.
"""

from __future__ import annotations

from collections.abc import Sequence

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.fleet.views.stale import stale_sentence
from mission_tui.tui.drawing import numbers
from mission_tui.tui.drawing.strips import literal

__all__ = ["CriticalFindings", "News", "StaleNews", "desktop_note", "sentences"]

News = tuple[RunView, Finding]

_NAMED = 3
_NOTE_LETTERS = 200


class CriticalFindings:
    """Remembers what has been told. `muted` keeps the terminal quiet; toasts come all the same."""

    def __init__(self, *, muted: bool = False) -> None:
        self.muted = muted
        self._told: set[tuple[str, str]] | None = None

    def update(self, snapshot: FleetSnapshot) -> tuple[News, ...]:
        """The critical findings that were not in any snapshot before and that nobody has acknowledged or silenced."""
        critical = {
            (view.id, finding.id): (view, finding)
            for view in snapshot.runs
            for finding in view.findings
            if finding.severity == "critical"
        }
        known, self._told = self._told, critical.keys() | (self._told or set())
        if known is None:
            return ()
        return tuple(news for key, news in critical.items() if key not in known and news[1].state == "open")


def sentences(news: Sequence[News]) -> list[str]:
    """What to say of `news`: run and finding, a few by name and the others by number."""
    said = [f"{view.name}: {finding.sentence}" for view, finding in news[:_NAMED]]
    more = len(news) - _NAMED
    return [*said, f"and {more} more critical findings"] if more > 0 else said


def desktop_note(news: Sequence[News]) -> str:
    """The control sequence (OSC 9) that makes many terminals show a notification, with one line about `news`.

    It begins with our name, because a number in first place would mean something else to some terminals.
    """
    text = literal("mission-tui: " + "; ".join(sentences(news)))[:_NOTE_LETTERS]
    return f"\x1b]9;{text}\x07"


class StaleNews:
    """Remembers how many were told of."""

    def __init__(self) -> None:
        self._told = 0

    def update(self, snapshot: FleetSnapshot) -> str | None:
        """A sentence with the key that helps, when there is something new to say."""
        count, before = sum(run.processes for run in snapshot.stale), self._told
        self._told = count
        if count <= before:
            return None
        sizes = [
            f"{numbers.size(total)}{of}"
            for of, total in (
                ("", sum(run.memory_bytes or 0 for run in snapshot.stale)),
                (" of VRAM", sum(run.vram_bytes or 0 for run in snapshot.stale)),
            )
            if total
        ]
        holding = f", holding {' and '.join(sizes)}" if sizes else ""
        return f"{stale_sentence(snapshot.stale)}{holding}: X shows and removes them"
