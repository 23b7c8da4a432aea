"""The whole dynamic state of N fields as a struct of arrays; the last axis of every array is the lane.

Nothing else may change from one decision to the next, so copying these arrays (and each lane's generator) is enough
to continue bit for bit. Float arrays are only ever combined lane by lane, never summed across lanes, so that a lane's
numbers do not depend on how many others are simulated beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOT_STARTED", "Bools", "Fields", "Floats", "Ints"]

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
