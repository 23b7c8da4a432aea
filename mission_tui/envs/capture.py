"""The zone: who stands in it, how capture progress grows and decays, how far the attackers still are.

Progress is measured in capture seconds. While anybody alive is inside it grows by the sum of their weights per second;
while nobody is, it falls by `capture_decay` per second. Distances include disabled units where they lie, so that
losing a straggler is never progress.
"""

from __future__ import annotations

import numpy as np

from mission_tui.envs.fields import Bools, Fields, Floats
from mission_tui.envs.mission import Mission

__all__ = ["Capture", "mean_distance"]


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


def mean_distance(fields: Fields, radius_m: float) -> Floats:
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
