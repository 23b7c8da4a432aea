"""The strip: what the GPUs did and in which phase each run was, on one time axis.

Times are unix seconds. A stretch that nobody watched has no cell and no span, so that a gap is a gap and never a zero.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mission_tui.fleet.events.outcome import Phase
from mission_tui.fleet.strips.cells import Cell

StandState = Literal["queued", "paused", "frozen", "parked"]
"""The states in which a run does nothing because it was asked to wait."""


class Span(Struct, frozen=True, array_like=True):
    """A run was in `phase` from `since` to `until`; the span that goes on ends where the strip does."""

    phase: Phase
    since: float
    until: float


class StateInterval(Struct, frozen=True, array_like=True):
    """A run stood in `state` from `since` to `until`, by its journal."""

    state: StandState
    since: float
    until: float


class Lane(Struct, frozen=True, kw_only=True):
    """One run's phases, oldest first, none overlapping the next.

    `gpu`: the UUID of the GPU that it trains on; empty where it trains on none, or nobody knows. `steps`: the timesteps
    that it did between the strip's ends; None where that is not at hand. `stands` say what became of it where it has no
    phase, or what its trainer was not heard to say.
    """

    run: str
    name: str
    spans: tuple[Span, ...] = ()
    gpu: str = ""
    steps: int | None = None
    stands: tuple[StateInterval, ...] = ()


class GpuTrack(Struct, frozen=True, kw_only=True):
    """How busy one GPU was, in percent, and its power in watts; without power where the driver does not tell."""

    uuid: str
    name: str
    busy: tuple[Cell, ...] = ()
    power: tuple[Cell, ...] = ()


class Strip(Struct, frozen=True, kw_only=True):
    """Everything between `since` and `until`; `cpu` is the host's processor use in percent of all its cores."""

    since: float
    until: float
    gpus: tuple[GpuTrack, ...] = ()
    cpu: tuple[Cell, ...] = ()
    lanes: tuple[Lane, ...] = ()
