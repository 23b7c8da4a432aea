"""How attackers and guards move.

Attackers go at full speed in one of eight headings, or not at all. There is no inertia, so going there and back ends
where it began: a cycle of orders never creeps. Each tick adds ordered velocity * dt, cut off at the field's edge. A
ground unit that would enter an obstacle keeps its old coordinate on that axis and so slides along the wall; air units
fly over.

Guards are drones, obstacles do not stop them: they walk their route, chase the nearest attacker in sight and tag what
stays in reach. They choose a target at each decision and fly straight at it for the whole decision; contact is counted
at every physics tick. A unit whose armour is worn down is disabled, and the guards that touched it cannot tag again
until they have reloaded.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mission_tui.envs.fields import Bools, Fields, Floats, Ints
from mission_tui.envs.mission import Mission

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
_TINY_M = 1e-9
_MARGIN_M = 1.0
"""Far more than rounding can add to the distance that two units close in one decision."""


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


class Flight(NamedTuple):
    """What the guards do in one decision."""

    vx: Floats
    """(D, N) velocities in m/s, like `vy`."""
    vy: Floats
    lanes: Ints | slice | None
    """Lanes in which anybody can come within reach of anybody before the next decision; None where nobody can."""


class Guards:
    """The defenders of a mission."""

    def __init__(self, mission: Mission) -> None:
        drone, rules = mission.units.defender, mission.rules
        routes = [patrol.waypoints_m for patrol in mission.world.patrols]
        longest = max(len(route) for route in routes)
        corners = np.array([[route[i % len(route)] for i in range(longest)] for route in routes])
        self._routes_x, self._routes_y = corners[..., 0].copy(), corners[..., 1].copy()
        self._lengths = np.array([[len(route)] for route in routes])
        self._rows = np.arange(len(routes))[:, None]
        self._drone = drone
        self._tick_s, self._decision_s = mission.tick_s, mission.decision_s
        self._reload_ticks = round(drone.reload_s * rules.physics_hz)
        closing_mps = max(kind.speed_mps for kind in mission.units.kinds()) + max(drone.chase_mps, drone.patrol_mps)
        self._risk_m = drone.tag_m + closing_mps * mission.decision_s + _MARGIN_M
        self._pairs = Pairs()

    def plan(self, fields: Fields) -> Flight:
        """The flight of this decision; a guard that will reach its waypoint turns to the next."""
        squared = self._pairs.squared(fields.x, fields.y, fields.guard_x, fields.guard_y)
        np.copyto(squared, np.inf, where=~fields.alive)
        nearest, at_x, at_y = squared[:, 0], fields.x[0], fields.y[0]
        # Unit by unit is faster than `argmin` over the middle axis and a look-up; ties go to the first either way.
        for unit in range(1, len(fields.x)):
            closer = squared[:, unit] < nearest
            nearest = np.minimum(nearest, squared[:, unit])
            at_x, at_y = np.where(closer, fields.x[unit], at_x), np.where(closer, fields.y[unit], at_y)
        chasing = nearest < self._drone.sight_m * self._drone.sight_m
        goal = self._rows, fields.waypoint
        to_x = np.where(chasing, at_x, self._routes_x[goal]) - fields.guard_x
        to_y = np.where(chasing, at_y, self._routes_y[goal]) - fields.guard_y
        distance = np.sqrt(to_x * to_x + to_y * to_y)
        reach = np.where(chasing, self._drone.chase_mps, self._drone.patrol_mps) * self._decision_s
        arriving = ~chasing & (distance <= reach)
        fields.waypoint = (fields.waypoint + arriving) % self._lengths
        pace = np.minimum(reach, distance) / (np.maximum(distance, _TINY_M) * self._decision_s)
        return Flight(to_x * pace, to_y * pace, self._lanes_at_risk(nearest))

    def advance(self, fields: Fields, flight: Flight) -> None:
        """One physics tick: move, then wear down and disable the attackers within reach."""
        fields.guard_x += flight.vx * self._tick_s
        fields.guard_y += flight.vy * self._tick_s
        if flight.lanes is not None:
            self._touch(fields, flight.lanes)
        fields.reload -= fields.reload > 0

    def _lanes_at_risk(self, nearest: Floats) -> Ints | slice | None:
        at_risk = (nearest < self._risk_m * self._risk_m).any(axis=0)
        count = np.count_nonzero(at_risk)
        if count == 0:
            return None
        # Picking lanes out costs more than looking at all of them when most are picked.
        return np.flatnonzero(at_risk) if 2 * count < at_risk.size else slice(None)

    def _touch(self, fields: Fields, lanes: Ints | slice) -> None:
        places = (place[:, lanes] for place in (fields.x, fields.y, fields.guard_x, fields.guard_y))
        near = self._pairs.squared(*places) < self._drone.tag_m * self._drone.tag_m
        if not near.any():
            return
        alive, reload = fields.alive[:, lanes], fields.reload[:, lanes]
        contact: Bools = near & alive & (reload == 0)[:, None]
        touched = contact.any(axis=0)
        armour = fields.armour[:, lanes] - touched
        downed = touched & (armour == 0)
        fields.armour[:, lanes] = armour
        fields.alive[:, lanes] = alive & ~downed
        fields.reload[:, lanes] = np.where((contact & downed).any(axis=1), self._reload_ticks, reload)


class Pairs:
    """Squared distances between all guards and attackers, in a buffer that the next call overwrites.

    For thousands of lanes these are the largest arrays; fresh ones would be fresh pages every time.
    """

    def __init__(self) -> None:
        self._dx = self._dy = np.empty((0, 0, 0))

    def squared(self, x: Floats, y: Floats, guard_x: Floats, guard_y: Floats) -> Floats:
        """(D, A, N) square metres, for attackers (A, N) and guards (D, N)."""
        shape = len(guard_x), *x.shape
        if self._dx.shape != shape:
            self._dx, self._dy = np.empty(shape), np.empty(shape)
        dx = np.subtract(x, guard_x[:, None], out=self._dx)
        dy = np.subtract(y, guard_y[:, None], out=self._dy)
        dx *= dx
        dy *= dy
        dx += dy
        return dx
