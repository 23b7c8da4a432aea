"""Which runs the fleet screen lists and in which order: filtered, sorted, live before ended. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mission_tui.fleet.metrics import number
from mission_tui.fleet.outcome import ALIVE
from mission_tui.fleet.snapshot import FleetSnapshot, RunView
from mission_tui.tui.standing import alarms, share_done, state_word

__all__ = ["SORTS", "Roster", "muster"]

SORTS = ("age", "run", "state", "done", "return", "st/s", "health", "ETA")
"""What a list can be sorted by; `age` is the snapshot's own order. The others are column titles."""


@dataclass(frozen=True, slots=True)
class Roster:
    """The listed runs: those with a living trainer, then those that wait or have ended."""

    live: tuple[RunView, ...] = ()
    rest: tuple[RunView, ...] = ()

    @property
    def runs(self) -> tuple[RunView, ...]:
        """All listed runs from top to bottom."""
        return self.live + self.rest

    def index(self, run_id: str | None) -> int | None:
        """Where `run_id` stands in `runs`."""
        return next((at for at, view in enumerate(self.runs) if view.id == run_id), None)


def muster(snapshot: FleetSnapshot, pattern: re.Pattern[str] | None = None, sort: str = "age") -> Roster:
    """The runs of `snapshot` that `pattern` finds, each part ordered by `sort` (one of `SORTS`)."""
    found = [view for view in snapshot.runs if pattern is None or pattern.search(_searched(view))]
    if sort != "age":
        found.sort(key=_sort_key(sort, snapshot.t))
    return Roster(
        live=tuple(view for view in found if view.state in ALIVE),
        rest=tuple(view for view in found if view.state not in ALIVE),
    )


def _searched(view: RunView) -> str:
    words = (view.name, view.id, view.preset, state_word(view), view.group or "", view.env_id, view.kind or "")
    return " ".join((*words, *view.labels))


def _sort_key(sort: str, now: float) -> Callable[[RunView], tuple[bool, Any]]:
    """Names rise, numbers fall (the most advanced, fastest, worst first), unknown values come last."""

    def falling(value: float | None) -> tuple[bool, Any]:
        return (value is None or value != value, -(value or 0.0))

    def key(view: RunView) -> tuple[bool, Any]:
        match sort:
            case "run":
                return (False, view.name)
            case "state":
                return (False, state_word(view))
            case "done":
                return falling(share_done(view))
            case "return":
                return falling(number(view.metrics.get("rollout/ep_rew_mean")))
            case "st/s":
                return falling(view.pace)
            case "health":
                return (False, [_severity_rank(view), view.name])
            case _:
                left = view.eta_s if view.state in ALIVE else None if view.ended_t is None else now - view.ended_t
                return (left is None, left or 0.0)

    return key


def _severity_rank(view: RunView) -> int:
    if view.flags or view.outcome in ("failed", "lost"):
        return 0
    asking = alarms(view)
    return 3 if not asking else 1 if asking[0].severity == "critical" else 2
