"""When a run waited or was held, from how it stood after each event of its journal: what no trainer says of itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from mission_tui.fleet.events.outcome import RunState
from mission_tui.fleet.strips.strip import StandState, StateInterval

__all__ = ["StateIntervals"]

MOST = 256
"""Changes that are remembered; the newest ones."""
_STANDS: dict[RunState, StandState] = {"queued": "queued", "paused": "paused", "frozen": "frozen", "parked": "parked"}


class StateIntervals:
    """Takes in states in the order of the journal, whatever its clock did."""

    def __init__(self) -> None:
        self._changes: deque[tuple[float, StandState | None]] = deque(maxlen=MOST)

    def add(self, state: RunState, t: float) -> None:
        """From unix time `t` on the run is in `state`."""
        stands = _STANDS.get(state)
        last_t, last = self._changes[-1] if self._changes else (t, None)
        if stands != last:
            self._changes.append((max(t, last_t), stands))

    def between(self, since: float, until: float) -> tuple[StateInterval, ...]:
        """The stands from `since` to `until`, oldest first; what goes on ends there."""
        changes: Sequence[tuple[float, StandState | None]] = (*self._changes, (until, None))
        return tuple(
            StateInterval(state, max(t, since), min(end, until))
            for (t, state), (end, _) in pairwise(changes)
            if state is not None and max(t, since) < min(end, until)
        )
