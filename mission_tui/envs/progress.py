"""Progress of an episode: distance and capture records, the shaping gain paid for them, and the stall clock.

Shaping that pays each step against the previous one pays for oscillating (`one_way`) or needs a step cost to punish it
(`two_way`); against the best distance so far (`best_so_far`) a cycle earns its first improvement once and never again.
"""

from __future__ import annotations

import numpy as np

from mission_tui.envs.capture import mean_distance
from mission_tui.envs.fields import Fields, Floats
from mission_tui.envs.mission import Mission, Shaping

__all__ = ["Progress"]


class Progress:
    """Measures gains; owns the distance, record and stall arrays of the fields."""

    def __init__(self, mission: Mission, shaping: Shaping) -> None:
        self._radius_m = mission.world.zone.radius_m
        self._mark_m = mission.rules.stall_progress_m
        self._shaping = shaping

    def begin(self, fields: Fields) -> None:
        """Take the first measurement of fresh fields."""
        fields.distance_m = mean_distance(fields, self._radius_m)
        fields.best_distance_m = fields.distance_m.copy()
        fields.mark_distance_m = fields.distance_m.copy()

    def measure(self, fields: Fields) -> tuple[Floats, Floats]:
        """Gains (N,) since the last decision: metres that shaping pays for, and new capture seconds."""
        distance = mean_distance(fields, self._radius_m)
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
