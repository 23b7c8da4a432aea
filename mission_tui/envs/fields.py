"""The whole dynamic state of N fields as a struct of arrays, and how episodes start it; the last axis of every array is
the lane.

Nothing else may change from one decision to the next, so copying these arrays (and each lane's generator) is enough to
continue bit for bit. Float arrays are only ever combined lane by lane, never summed across lanes, so that a lane's
numbers do not depend on how many others are simulated beside it.

An episode starts from a row of uniform draws. Each lane draws from its own generator, always the same number of values,
so lane i of a batch and a single environment with the same seed see the same episodes however often they end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mission_tui.envs.mission import Mission

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NOT_STARTED = -1


@dataclass(slots=True)
class Fields:
    """State of N lanes with A attackers and D defenders; metres, metres per second and counts."""

    x: Floats
    """(A, N) attackers' positions, like `y`."""
    y: Floats
    vx: Floats
    """(A, N) attackers' mean velocities over the last decision, like `vy`."""
    vy: Floats
    alive: Bools
    """(A, N) false once a unit is tagged or spent; it stays where it was."""
    armour: Ints
    """(A, N) physics ticks of contact left."""
    guard_x: Floats
    """(D, N) defenders' positions, like `guard_y`."""
    guard_y: Floats
    waypoint: Ints
    """(D, N) index of the waypoint a defender walks to when it sees nobody."""
    reload: Ints
    """(D, N) physics ticks until a defender can tag again."""
    zone_x: Floats
    """(N,) centre of this episode's zone, like `zone_y`."""
    zone_y: Floats
    capture_s: Floats
    """(N,) capture progress, and its record `best_capture_s`."""
    best_capture_s: Floats
    distance_m: Floats
    """(N,) mean distance of all attackers to the zone's edge, its record, and the record at the last stall mark."""
    best_distance_m: Floats
    mark_distance_m: Floats
    decisions: Ints
    """(N,) decisions since the start, and the one in which progress was last seen."""
    progress_at: Ints
    outcome: Ints
    """(N,) 0 while running, `NOT_STARTED` before the first episode, else 1 + the index in `OUTCOMES`."""

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Name and array of every part of the state."""
        for field in fields(self):
            yield field.name, getattr(self, field.name)

    def take(self, lanes: Ints) -> Fields:
        """A copy of some lanes."""
        return Fields(**{name: array[..., lanes] for name, array in self.arrays()})

    def put(self, lanes: Ints, source: Fields) -> None:
        """Overwrite some lanes with those of `source`."""
        for name, array in self.arrays():
            array[..., lanes] = getattr(source, name)


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
