"""What the policy sees: ten numbers per attacker, then clock and capture progress, all within [-1, 1].

Per attacker: position, velocity, offset to the zone, offset to the nearest defender (x and y each), armour left (-1
once disabled) and endurance left. With `observe_best` the best distance so far comes last, which makes `best_so_far`
shaping a function of the observation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mission_tui.envs.fields import Fields, Floats
from mission_tui.envs.guards import nearest_distance
from mission_tui.envs.mission import Mission

__all__ = ["PER_ATTACKER", "Observer"]

PER_ATTACKER = 10
_SHARED = 2


class Observer:
    """Turns fields into observations."""

    def __init__(self, mission: Mission, *, observe_best: bool) -> None:
        kinds, rules = mission.units.kinds(), mission.rules
        self._attackers = len(kinds)
        self.size = PER_ATTACKER * self._attackers + _SHARED + observe_best
        self._observe_best = observe_best
        self._half_width, self._half_height = mission.world.width_m / 2, mission.world.height_m / 2
        self._guard_range_m = 2 * mission.units.defender.sight_m or 1.0
        self._speed = np.array([[kind.speed_mps] for kind in kinds])
        self._armour = np.array(mission.armour_ticks())
        self._endurance = np.array([[kind.endurance_s * rules.decision_hz] for kind in kinds])
        self._limit = rules.time_limit_s * rules.decision_hz
        self._full_s = rules.capture_s

    def observe(self, fields: Fields) -> NDArray[np.float32]:
        """Observations (N, size) of all lanes, freshly allocated."""
        observation = np.empty((fields.zone_x.size, self.size), dtype=np.float32)
        own = observation[:, : PER_ATTACKER * self._attackers].reshape(-1, self._attackers, PER_ATTACKER)
        for column, values in enumerate(self._per_attacker(fields)):
            own[:, :, column] = values.T
        shared = PER_ATTACKER * self._attackers
        observation[:, shared] = fields.decisions / self._limit
        observation[:, shared + 1] = fields.capture_s / self._full_s
        if self._observe_best:
            observation[:, -1] = fields.best_distance_m / (2 * self._half_width)
        return np.minimum(np.maximum(observation, np.float32(-1)), np.float32(1))

    def _per_attacker(self, fields: Fields) -> tuple[Floats, ...]:
        guard_dx, guard_dy = nearest_distance(fields)
        return (
            fields.x / self._half_width - 1.0,
            fields.y / self._half_height - 1.0,
            fields.vx / self._speed,
            fields.vy / self._speed,
            (fields.zone_x - fields.x) / self._half_width,
            (fields.zone_y - fields.y) / self._half_height,
            guard_dx / self._guard_range_m,
            guard_dy / self._guard_range_m,
            np.where(fields.alive, fields.armour / self._armour, -1.0),
            1.0 - fields.decisions / self._endurance,
        )
