"""Starts episodes: turns a row of uniform draws per lane into that lane's first state.

Each lane draws from its own generator, always the same number of values, so lane i of a batch and a single
environment with the same seed see the same episodes however often they end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mission_tui.envs.fields import Fields, Floats, Ints
from mission_tui.envs.mission import Mission

__all__ = ["Spawner"]


class Spawner:
    """First states of a mission: scattered attackers, a moved zone, guards somewhere on their routes."""

    def __init__(self, mission: Mission) -> None:
        self._attackers = len(mission.units.attackers)
        self._guards = len(mission.world.patrols)
        self._low = np.array(mission.world.spawn.low_m)[:, None, None]
        self._size = np.array(mission.world.spawn.high_m)[:, None, None] - self._low
        self._zone = mission.world.zone
        self._routes = [np.array(patrol.waypoints_m) for patrol in mission.world.patrols]
        self._armour = np.array(mission.armour_ticks())

    @property
    def draws(self) -> int:
        """Uniform values in [0, 1) that one episode needs."""
        return 2 * self._attackers + 2 + self._guards

    def fresh(self, generators: Sequence[np.random.Generator]) -> Fields:
        """First states of as many lanes as there are generators, each advanced by `draws` values."""
        lanes, attackers = len(generators), self._attackers
        draws = np.empty((lanes, self.draws))
        for row, generator in zip(draws, generators, strict=True):
            generator.random(out=row)
        places = self._low + self._size * draws[:, : 2 * attackers].T.reshape(2, attackers, lanes)
        shift = (2.0 * draws[:, 2 * attackers : 2 * attackers + 2].T - 1.0) * self._zone.jitter_m
        guard_x, guard_y, waypoint = self._on_route(draws[:, 2 * attackers + 2 :].T)
        return Fields(
            x=places[0],
            y=places[1],
            vx=np.zeros((attackers, lanes)),
            vy=np.zeros((attackers, lanes)),
            alive=np.ones((attackers, lanes), dtype=np.bool_),
            armour=np.repeat(self._armour, lanes, axis=1),
            guard_x=guard_x,
            guard_y=guard_y,
            waypoint=waypoint,
            reload=np.zeros((self._guards, lanes), dtype=np.int64),
            zone_x=self._zone.centre_m[0] + shift[0],
            zone_y=self._zone.centre_m[1] + shift[1],
            capture_s=np.zeros(lanes),
            best_capture_s=np.zeros(lanes),
            distance_m=np.zeros(lanes),
            best_distance_m=np.zeros(lanes),
            mark_distance_m=np.zeros(lanes),
            decisions=np.zeros(lanes, dtype=np.int64),
            progress_at=np.zeros(lanes, dtype=np.int64),
            outcome=np.zeros(lanes, dtype=np.int64),
        )

    def _on_route(self, phase: Floats) -> tuple[Floats, Floats, Ints]:
        """Positions and next waypoints for a phase in [0, 1) of shape (D, N); every leg is equally likely."""
        x, y = np.empty_like(phase), np.empty_like(phase)
        following = np.empty(phase.shape, dtype=np.int64)
        for guard, route in enumerate(self._routes):
            along = phase[guard] * len(route)
            leg = along.astype(np.int64)
            following[guard] = (leg + 1) % len(route)
            start, end = route[leg], route[following[guard]]
            part = along - leg
            x[guard] = start[:, 0] + part * (end[:, 0] - start[:, 0])
            y[guard] = start[:, 1] + part * (end[:, 1] - start[:, 1])
        return x, y, following
