"""How defenders act: walk their route, chase the nearest attacker in sight, tag what stays in reach.

Guards are drones, obstacles do not stop them. They choose a target at each decision and fly straight at it for the
whole decision; contact is counted at every physics tick. A unit whose armour is worn down is disabled, and the
guards that touched it cannot tag again until they have reloaded.
"""

from __future__ import annotations

import numpy as np

from mission_tui.envs.fields import Bools, Fields, Floats
from mission_tui.envs.mission import Mission

__all__ = ["Guards", "nearest_distance"]

_TINY_M = 1e-9


class Guards:
    """The defenders of a mission."""

    def __init__(self, mission: Mission) -> None:
        drone, rules = mission.units.defender, mission.rules
        routes = [patrol.waypoints_m for patrol in mission.world.patrols]
        longest = max(len(route) for route in routes)
        self._routes = np.array([[route[i % len(route)] for i in range(longest)] for route in routes])
        self._lengths = np.array([[len(route)] for route in routes])
        self._rows = np.arange(len(routes))[:, None]
        self._drone = drone
        self._tick_s, self._decision_s = mission.tick_s, mission.decision_s
        self._reload_ticks = round(drone.reload_s * rules.physics_hz)

    def choose_velocity(self, fields: Fields) -> tuple[Floats, Floats]:
        """Velocities (D, N) for this decision in m/s; a guard that will reach its waypoint turns to the next."""
        squared = _squared_distances(fields)
        squared = np.where(fields.alive, squared, np.inf)
        target = squared.argmin(axis=1)
        sight_m = self._drone.sight_m
        chasing = squared.min(axis=1) < sight_m * sight_m
        lanes = np.arange(fields.zone_x.size)
        goal = self._routes[self._rows, fields.waypoint]
        to_x = np.where(chasing, fields.x[target, lanes], goal[..., 0]) - fields.guard_x
        to_y = np.where(chasing, fields.y[target, lanes], goal[..., 1]) - fields.guard_y
        distance = np.sqrt(to_x * to_x + to_y * to_y)
        reach = np.where(chasing, self._drone.chase_mps, self._drone.patrol_mps) * self._decision_s
        arriving = ~chasing & (distance <= reach)
        fields.waypoint = (fields.waypoint + arriving) % self._lengths
        pace = np.minimum(reach, distance) / (np.maximum(distance, _TINY_M) * self._decision_s)
        return to_x * pace, to_y * pace

    def advance(self, fields: Fields, vx: Floats, vy: Floats) -> None:
        """One physics tick: move, then wear down and disable the attackers within reach."""
        fields.guard_x += vx * self._tick_s
        fields.guard_y += vy * self._tick_s
        near = _squared_distances(fields) < self._drone.tag_m * self._drone.tag_m
        if near.any():
            self._touch(fields, near)
        fields.reload -= fields.reload > 0

    def _touch(self, fields: Fields, near: Bools) -> None:
        contact = near & fields.alive & (fields.reload == 0)[:, None]
        touched = contact.any(axis=0)
        fields.armour -= touched
        downed = touched & (fields.armour == 0)
        fields.alive &= ~downed
        np.copyto(fields.reload, self._reload_ticks, where=(contact & downed).any(axis=1))


def nearest_distance(fields: Fields) -> tuple[Floats, Floats]:
    """Vector (A, N) from each attacker to the defender nearest to it, in metres along x and y."""
    guard = _squared_distances(fields).argmin(axis=0)
    lanes = np.arange(fields.zone_x.size)
    return fields.guard_x[guard, lanes] - fields.x, fields.guard_y[guard, lanes] - fields.y


def _squared_distances(fields: Fields) -> Floats:
    dx = fields.x - fields.guard_x[:, None]
    dy = fields.y - fields.guard_y[:, None]
    squared: Floats = dx * dx + dy * dy
    return squared
