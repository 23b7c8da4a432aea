"""What the policy sees: ten numbers per attacker, then clock and capture progress, all within [-1, 1].

Per attacker: position, velocity, offset to the zone, offset to the nearest defender (x and y each), armour left (-1
once disabled) and endurance left. With `observe_best` the best distance so far comes last, which makes `best_so_far`
shaping a function of the observation.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mission_tui.envs.fields import Fields, Floats
from mission_tui.envs.mission import Mission
from mission_tui.envs.movement import Pairs

PER_ATTACKER = 10
_SHARED = 2
_PADDING = 24


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
        self._endurance = np.array(mission.endurance_decisions())
        self._limit = rules.time_limit_s * rules.decision_hz
        self._full_s = rules.capture_s
        self._pairs = Pairs()

    def observe(self, fields: Fields) -> NDArray[np.float32]:
        """Observations (N, size) of all lanes, freshly allocated."""
        # One row per number while they are worked out: a column would be written with gaps. The padding keeps rows of
        # 2,048 lanes from sharing cache lines when they are turned into columns, which is then ten times as fast.
        lanes = fields.zone_x.size
        rows = np.empty((self.size, lanes + _PADDING), dtype=np.float32)[:, :lanes]
        shared = PER_ATTACKER * self._attackers
        for column, values in enumerate(self._per_attacker(fields)):
            rows[column:shared:PER_ATTACKER] = values
        np.divide(fields.decisions, self._limit, out=rows[shared], casting="same_kind")
        np.divide(fields.capture_s, self._full_s, out=rows[shared + 1], casting="same_kind")
        if self._observe_best:
            np.divide(fields.best_distance_m, 2 * self._half_width, out=rows[-1], casting="same_kind")
        np.maximum(rows, np.float32(-1), out=rows)
        np.minimum(rows, np.float32(1), out=rows)
        return np.ascontiguousarray(rows.T)

    def _per_attacker(self, fields: Fields) -> Iterator[Floats]:
        yield fields.x / self._half_width - 1.0
        yield fields.y / self._half_height - 1.0
        yield fields.vx / self._speed
        yield fields.vy / self._speed
        yield (fields.zone_x - fields.x) / self._half_width
        yield (fields.zone_y - fields.y) / self._half_height
        guard_dx, guard_dy = self._nearest_guard(fields)
        yield guard_dx / self._guard_range_m
        yield guard_dy / self._guard_range_m
        yield np.where(fields.alive, fields.armour / self._armour, -1.0)
        yield 1.0 - fields.decisions / self._endurance

    def _nearest_guard(self, fields: Fields) -> tuple[Floats, Floats]:
        """Vector (A, N) from each attacker to the defender nearest to it, in metres along x and y."""
        squared = self._pairs.squared(fields.x, fields.y, fields.guard_x, fields.guard_y)
        nearest, at_x, at_y = squared[0], fields.guard_x[0], fields.guard_y[0]
        # Guard by guard is faster than `argmin` over the first axis and a look-up; ties go to the first either way.
        for other, guard_x, guard_y in zip(squared[1:], fields.guard_x[1:], fields.guard_y[1:], strict=True):
            closer = other < nearest
            nearest = np.minimum(nearest, other)
            at_x, at_y = np.where(closer, guard_x, at_x), np.where(closer, guard_y, at_y)
        return at_x - fields.x, at_y - fields.y
