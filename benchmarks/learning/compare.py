"""Two engines' trainings of one task, judged alike or not by the same rules for all.

Alike are curves of which, at each of twenty checkpoints in steps, either side's median over the seeds lies within the
other side's least and most; and evaluations whose 95 % intervals of the mean return overlap. A seed is one sample: a
hundred episodes of one policy say how good that policy is, not how good the next seed's will be. Of two times five
independent draws of one thing one median lies outside in a third of all cases, so that five seeds of engines that
round apart rarely pass at all twenty: give more.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.learning.train import Learned
from benchmarks.results import Row, Spread
from mission_tui.fleet.comparison import spread_of

__all__ = ["CHECKPOINTS", "Likeness", "at_checkpoints", "likeness", "row"]

CHECKPOINTS = 20
GOAL = "medians within each other's bands at 20 checkpoints, 95 % intervals of evaluations over seeds overlap"
NAMES = {"sb3": "SB3's PPO", "stock": "engine stock"}


@dataclass(frozen=True, slots=True)
class Likeness:
    """Checkpoints at which both sides have returns, how often each median lay in the other's band, and the rest."""

    checkpoints: int
    ours_inside: int
    theirs_inside: int
    ours_interval: tuple[float, float]
    theirs_interval: tuple[float, float]
    bit_equal: int
    seeds: int

    @property
    def met(self) -> bool:
        """Whether they learned alike."""
        low = max(self.ours_interval[0], self.theirs_interval[0])
        high = min(self.ours_interval[1], self.theirs_interval[1])
        return self.ours_inside == self.theirs_inside == self.checkpoints > 0 and low <= high


def likeness(ours: Sequence[Learned], theirs: Sequence[Learned]) -> Likeness:
    """Compare trainings of the same seeds, in the same order."""
    our_columns, their_columns = _columns(ours), _columns(theirs)
    shared = [(ours, theirs) for ours, theirs in zip(our_columns, their_columns, strict=True) if ours and theirs]
    return Likeness(
        checkpoints=len(shared),
        ours_inside=sum(_inside(ours, theirs) for ours, theirs in shared),
        theirs_inside=sum(_inside(theirs, ours) for ours, theirs in shared),
        ours_interval=_interval(ours),
        theirs_interval=_interval(theirs),
        bit_equal=sum(_same(one, other) for one, other in zip(ours, theirs, strict=True)),
        seeds=len(ours),
    )


def row(ours: Sequence[Learned], theirs: Sequence[Learned]) -> Row:
    """The line of the table of goals for one task."""
    found, spec = likeness(ours, theirs), ours[0].spec
    note = (
        f"medians inside at {found.ours_inside} and {found.theirs_inside} of {found.checkpoints} checkpoints; "
        f"intervals {_span(found.ours_interval)} and {_span(found.theirs_interval)}; "
        f"curve, final parameters and returns equal to the last bit for {found.bit_equal} of {found.seeds} seeds"
    )
    return Row(
        what=f"learning of {spec.preset}, {spec.run.total_timesteps:,} steps, {found.seeds} seeds, evaluated return",
        unit="return",
        ours=_evaluations(ours),
        goal=GOAL,
        met=found.met,
        against=NAMES[theirs[0].engine],
        peer=_evaluations(theirs),
        note=note,
    )


def at_checkpoints(training: Learned) -> list[float | None]:
    """The curve's value at each of `CHECKPOINTS` equal parts of the budget: that of the last update before it."""
    total = training.spec.run.total_timesteps or 0
    values = []
    for number in range(1, CHECKPOINTS + 1):
        reached = [value for steps, value in training.curve if steps <= number * total / CHECKPOINTS]
        values.append(reached[-1] if reached else None)
    return values


def _columns(trainings: Sequence[Learned]) -> list[list[float]]:
    """Per checkpoint the values of all seeds that have one."""
    table = [at_checkpoints(training) for training in trainings]
    return [[value for value in column if value is not None] for column in zip(*table, strict=True)]


def _inside(own: list[float], band: list[float]) -> bool:
    return min(band) <= statistics.median(own) <= max(band)


def _interval(trainings: Sequence[Learned]) -> tuple[float, float]:
    """95 % of the mean over seeds; with fewer than three seeds, or all alike, their least and greatest."""
    spread = spread_of([statistics.fmean(training.returns) for training in trainings])
    assert spread is not None
    return spread.interval or (spread.low, spread.high)


def _same(one: Learned, other: Learned) -> bool:
    return (one.curve, one.returns, one.parameters) == (other.curve, other.returns, other.parameters)


def _evaluations(trainings: Sequence[Learned]) -> Spread:
    return Spread.of([statistics.fmean(training.returns) for training in trainings])


def _span(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.2f} to {interval[1]:.2f}"
