"""The test that could prove the score worthless: labels dealt out at random must make precision fall to the base rate.

If rules that look at the wrong runs still scored well, the score would measure the labels and not the rules. A dealt
label is also turned by a random number of updates: onsets come early and incidents late, which alone would look like
agreement.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.health.cases import Case, Incident
from benchmarks.health.scoring import Scored, healthy_updates, precision

__all__ = ["Falsified", "shuffled"]

DEALS = 200


@dataclass(frozen=True, slots=True)
class Falsified:
    """Precision as it is, over deals of random labels (mean, 95 % range), and the share of updates that are sick."""

    real: float
    mean: float
    low: float
    high: float
    base: float


def shuffled(scored: Sequence[Scored]) -> Falsified:
    """Deal the labels of `scored` to the wrong runs, again and again, and look at the precision."""
    dice = random.Random(0)
    dealt = sorted(_deal(scored, dice) for _ in range(DEALS))
    clear = [one.case for one in scored if not one.case.unclear]
    updates = sum(sum(1 for _ in case.rows) for case in clear)
    sick = updates - sum(healthy_updates(case) for case in clear)
    return Falsified(
        real=_share(*precision(scored)),
        mean=statistics.fmean(dealt),
        low=dealt[int(0.025 * (DEALS - 1))],
        high=dealt[int(0.975 * (DEALS - 1))],
        base=_share(sick, updates),
    )


def _deal(scored: Sequence[Scored], dice: random.Random) -> float:
    """Precision when every run keeps its alarms and gets the turned label of another run."""
    others = [one.case for one in scored]
    dice.shuffle(others)
    true = total = 0
    for one, other in zip(scored, others, strict=True):
        turn = dice.randrange(1 << 20)
        for incident in one.alarms:
            total += 1
            true += _by_chance(incident, other, turn)
    return _share(true, total)


def _by_chance(incident: Incident, other: Case, turn: int) -> bool:
    if other.sick_from is None:
        return False
    return (incident.first + turn) % max(1, sum(1 for _ in other.rows)) >= other.sick_from


def _share(true: int, total: int) -> float:
    return true / total if total else 0.0
