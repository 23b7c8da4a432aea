"""How attackers move: at full speed in one of eight headings, or not at all; walls stop ground units.

There is no inertia, so going there and back ends where it began: a cycle of orders never creeps. Each tick adds
ordered velocity * dt, cut off at the field's edge. A ground unit that would enter an obstacle keeps its old coordinate
on that axis and so slides along the wall; air units fly over.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mission_tui.envs.fields import Bools, Fields, Floats
from mission_tui.envs.mission import Mission

__all__ = ["HEADINGS", "Movement"]

_DIAGONAL = math.sqrt(0.5)
HEADINGS: tuple[tuple[float, float], ...] = (
    (0.0, 0.0),
    (0.0, 1.0),
    (_DIAGONAL, _DIAGONAL),
    (1.0, 0.0),
    (_DIAGONAL, -_DIAGONAL),
    (0.0, -1.0),
    (-_DIAGONAL, -_DIAGONAL),
    (-1.0, 0.0),
    (-_DIAGONAL, _DIAGONAL),
)
"""Unit vector of each action: 0 holds, 1 to 8 go round clockwise from north."""


class Movement:
    """Motion of a mission's attackers."""

    def __init__(self, mission: Mission) -> None:
        kinds, world = mission.units.kinds(), mission.world
        self._tick_s = mission.tick_s
        self._headings = np.array(HEADINGS).T
        self._speed = np.array([[kind.speed_mps] for kind in kinds])
        self._endurance = np.array(mission.endurance_decisions())
        self._width, self._height = world.width_m, world.height_m
        self._ground = mission.units.attackers.count("ground")
        margin = world.clearance_m
        corners = np.array([(*box.low_m, *box.high_m) for box in world.obstacles]).reshape(-1, 4, 1)
        self._low_x, self._low_y = corners[:, 0] - margin, corners[:, 1] - margin
        self._high_x, self._high_y = corners[:, 2] + margin, corners[:, 3] + margin

    def ordered_steps(self, actions: NDArray[np.integer]) -> tuple[Floats, Floats]:
        """Metres per tick (A, N) along x and y that the actions (N, A) ask for."""
        orders, per_tick = actions.T, self._speed * self._tick_s
        return self._headings[0][orders] * per_tick, self._headings[1][orders] * per_tick

    def advance(self, fields: Fields, step_x: Floats, step_y: Floats) -> None:
        """One physics tick."""
        new_x = self._moved(fields.x, step_x, fields.alive, self._width)
        new_y = self._moved(fields.y, step_y, fields.alive, self._height)
        if len(self._low_x) and self._ground:
            ground = slice(self._ground)
            hit_x = self._blocked(new_x[ground], fields.y[ground])
            np.copyto(new_x[ground], fields.x[ground], where=hit_x)
            hit_y = self._blocked(new_x[ground], new_y[ground])
            np.copyto(new_y[ground], fields.y[ground], where=hit_y)
        fields.x, fields.y = new_x, new_y

    def retire_spent(self, fields: Fields) -> None:
        """Disable units whose endurance is over."""
        fields.alive &= fields.decisions < self._endurance

    @staticmethod
    def _moved(place: Floats, step: Floats, alive: Bools, limit: float) -> Floats:
        moved = step * alive
        moved += place
        np.maximum(moved, 0.0, out=moved)
        return np.minimum(moved, limit, out=moved)

    def _blocked(self, x: Floats, y: Floats) -> Bools:
        x, y = x[:, None], y[:, None]
        inside = (x > self._low_x) & (x < self._high_x)
        inside &= y > self._low_y
        inside &= y < self._high_y
        blocked: Bools = np.logical_or.reduce(inside, axis=1)
        return blocked
