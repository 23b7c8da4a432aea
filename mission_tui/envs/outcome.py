"""The judge: decides after each decision whether an episode is over and how.

`fields.outcome`, and the word it becomes in `info["outcome"]`, is the only record of how an episode ended; flags and
wins are derived from it.
"""

from __future__ import annotations

import numpy as np

from mission_tui.envs.fields import Bools, Fields, Ints
from mission_tui.envs.mission import OUTCOMES, Mission, Outcome

__all__ = ["OutcomeRules", "is_truncated", "outcome_name"]

_CODES: dict[Outcome, int] = {name: code for code, name in enumerate(OUTCOMES, start=1)}


class OutcomeRules:
    """Ending rules of a mission; see `Rules` for each of them."""

    def __init__(self, mission: Mission) -> None:
        rules, hz = mission.rules, mission.rules.decision_hz
        self._full_s, self._early_hold_s = rules.capture_s, rules.early_hold_s
        self._limit = round(rules.time_limit_s * hz)
        self._early_before = rules.early_share * rules.time_limit_s * hz
        self._stall = round(rules.stall_s * hz) or self._limit + 1

    def decide(self, fields: Fields, held: Bools) -> None:
        """Set `fields.outcome`; `held` (N,) tells where all survivors stand in the zone."""
        checks: dict[Outcome, Bools] = {
            "captured": fields.capture_s >= self._full_s,
            "early_success": held & (fields.capture_s >= self._early_hold_s) & (fields.decisions < self._early_before),
            "all_disabled": fields.alive.sum(axis=0) == 0,
            "stalled": fields.decisions - fields.progress_at >= self._stall,
            "timeout": fields.decisions >= self._limit,
        }
        outcome: Ints = np.zeros_like(fields.outcome)
        for name in reversed(OUTCOMES):
            outcome = np.where(checks[name], _CODES[name], outcome)
        fields.outcome = outcome


def is_truncated(outcome: Ints) -> Bools:
    """True where the clock ended an episode that had not ended itself."""
    truncated: Bools = outcome == _CODES["timeout"]
    return truncated


def outcome_name(code: int) -> Outcome:
    """The word for a code above 0."""
    return OUTCOMES[code - 1]
