"""Which of the newest verdicts are worth a line now."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import FleetSnapshot, RunGain

__all__ = ["recent_gains"]

LATELY_S = 3600.0


def recent_gains(snapshot: FleetSnapshot) -> tuple[RunGain, ...]:
    """Those of the last hour that say what somebody brought, newest first; of runs that were judged together, one."""
    told: dict[tuple[object, ...], RunGain] = {}
    for paid in snapshot.paid:
        gain = paid.payoff
        if gain.verdict not in ("first", "swapped") and snapshot.t - gain.t < LATELY_S:
            at_once = (gain.change, gain.others, gain.less_per_s, gain.more_per_s)
            told.setdefault(at_once if gain.together > 1 else (paid.run, gain.t), paid)
    return tuple(told.values())
