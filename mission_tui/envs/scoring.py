"""What a decision comes to: progress and the shaping gain paid for it, capture of the zone, the reward, and the
verdict.

Shaping that pays each step against the previous one pays for oscillating (`one_way`) or needs a step cost to punish it
(`two_way`); against the best distance so far (`best_so_far`) a cycle earns its first improvement once and never again.

Capture progress is measured in seconds. While anybody alive is inside it grows by the sum of their weights per second;
while nobody is, it falls by `capture_decay` per second. Distances include disabled units where they lie, so that losing
a straggler is never progress.

`fields.outcome`, and the word it becomes in `info["outcome"]`, is the only record of how an episode ended; flags and
wins are derived from it.
"""

from __future__ import annotations

import numpy as np

from mission_tui.envs.fields import Bools, Fields, Floats, Ints
from mission_tui.envs.mission import OUTCOMES, Mission, Outcome, Shaping

_CODES: dict[Outcome, int] = {name: code for code, name in enumerate(OUTCOMES, start=1)}


class Capture:
    """Capture rules of a mission."""

    def __init__(self, mission: Mission) -> None:
        self._radius_m = mission.world.zone.radius_m
        self._ground = mission.units.attackers.count("ground")
        self._weights = mission.units.ground.capture_weight, mission.units.air.capture_weight
        self._full_s = mission.rules.capture_s
        self._decay = mission.rules.capture_decay * mission.decision_s
        self._decision_s = mission.decision_s

    def advance(self, fields: Fields) -> Bools:
        """Advance progress by one decision; true (N,) where all who survive, at least one, stand in the zone."""
        inside = _distances(fields, self._radius_m) <= 0.0
        inside &= fields.alive
        ground, air = inside[: self._ground].sum(axis=0), inside[self._ground :].sum(axis=0)
        rate = ground * self._weights[0] + air * self._weights[1]
        change = np.where(rate > 0, rate * self._decision_s, -self._decay)
        fields.capture_s = np.minimum(np.maximum(fields.capture_s + change, 0.0), self._full_s)
        present = ground + air
        held: Bools = (present > 0) & (present == fields.alive.sum(axis=0))
        return held


def _mean_distance(fields: Fields, radius_m: float) -> Floats:
    """Mean over all attackers of the distance to the zone's edge in metres, 0 inside; shape (N,)."""
    distances = np.maximum(_distances(fields, radius_m), 0.0)
    # Added in a fixed order: a pairwise sum could round differently with another number of lanes.
    total = distances[0]
    for row in distances[1:]:
        total = total + row
    mean: Floats = total / len(distances)
    return mean


def _distances(fields: Fields, radius_m: float) -> Floats:
    dx, dy = fields.x - fields.zone_x, fields.y - fields.zone_y
    distances: Floats = np.sqrt(dx * dx + dy * dy) - radius_m
    return distances


class Progress:
    """Measures gains; owns the distance, record and stall arrays of the fields."""

    def __init__(self, mission: Mission, shaping: Shaping) -> None:
        self._radius_m = mission.world.zone.radius_m
        self._mark_m = mission.rules.stall_progress_m
        self._shaping = shaping

    def begin(self, fields: Fields) -> None:
        """Take the first measurement of fresh fields."""
        fields.distance_m = _mean_distance(fields, self._radius_m)
        fields.best_distance_m = fields.distance_m.copy()
        fields.mark_distance_m = fields.distance_m.copy()

    def measure(self, fields: Fields) -> tuple[Floats, Floats]:
        """Gains (N,) since the last decision: metres that shaping pays for, and new capture seconds."""
        distance = _mean_distance(fields, self._radius_m)
        match self._shaping:
            case "two_way":
                gain_m = fields.distance_m - distance
            case "one_way":
                gain_m = np.maximum(fields.distance_m - distance, 0.0)
            case "best_so_far":
                gain_m = np.maximum(fields.best_distance_m - distance, 0.0)
        fields.distance_m = distance
        fields.best_distance_m = np.minimum(fields.best_distance_m, distance)
        capture_gain_s = np.maximum(fields.capture_s - fields.best_capture_s, 0.0)
        fields.best_capture_s = np.maximum(fields.best_capture_s, fields.capture_s)
        closer = distance <= fields.mark_distance_m - self._mark_m
        fields.mark_distance_m = np.where(closer, distance, fields.mark_distance_m)
        moved = closer | (capture_gain_s > 0)
        fields.progress_at = np.where(moved, fields.decisions, fields.progress_at)
        return gain_m, capture_gain_s


class RewardModel:
    """Prices of a mission."""

    def __init__(self, mission: Mission) -> None:
        self._prices = mission.rewards
        self._endings = np.array([0.0, *(getattr(mission.rewards.outcome, name) for name in OUTCOMES)])

    def compute(self, gain_m: Floats, capture_gain_s: Floats, lost: Ints, outcome: Ints) -> Floats:
        """Reward (N,) for metres and capture seconds gained, units lost in this decision, and the outcome code."""
        prices = self._prices
        reward: Floats = prices.progress_per_m * gain_m + prices.capture_per_s * capture_gain_s
        reward -= prices.step_cost
        reward -= prices.unit_lost * lost
        reward += self._endings[outcome]
        return reward


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
