"""Which of the newest verdicts are worth a line now."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import FleetSnapshot, Paid

__all__ = ["told_now"]

LATELY_S = 3600.0


def told_now(snapshot: FleetSnapshot) -> tuple[Paid, ...]:
    """Those of the last hour that say what somebody brought, newest first; of runs that were judged together, one."""
    told: dict[tuple[object, ...], Paid] = {}
    for paid in snapshot.paid:
        payoff = paid.payoff
        if payoff.verdict not in ("first", "swapped") and snapshot.t - payoff.t < LATELY_S:
            at_once = (payoff.change, payoff.others, payoff.less_per_s, payoff.more_per_s)
            told.setdefault(at_once if payoff.together > 1 else (paid.run, payoff.t), paid)
    return tuple(told.values())
