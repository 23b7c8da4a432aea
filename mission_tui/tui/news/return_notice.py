"""The moment of coming back: since when one was away, what had happened by then, and whether it was read.

It is counted anew for a few seconds: a supervisor that was started for this screen resumes and judges meanwhile.
"""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.tui.news.away import GRACE_S, Away, while_away

__all__ = ["ReturnNotice"]


class ReturnNotice:
    """`since_t` (unix s) is the last moment of an earlier look, None for the first one ever."""

    def __init__(self, since_t: float | None) -> None:
        self._since_t = since_t
        self._came_t: float | None = None
        self.away: Away | None = None
        self.best: dict[str, tuple[float, int]] = {}
        self.shown = True

    def update(self, snapshot: FleetSnapshot) -> bool:
        """Take in a snapshot; whether it told something new of the time away."""
        self._came_t = snapshot.t if self._came_t is None else self._came_t
        if snapshot.t > self._came_t + GRACE_S:
            return False
        before, self.away = self.away, while_away(snapshot, self._since_t, self._came_t)
        return self.away != before

    def close(self) -> bool:
        """It was read; false when there was nothing to close."""
        was, self.shown = self.shown and self.away is not None, False
        return was
