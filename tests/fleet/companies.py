"""Synthetic fleets of known gain: who trained when, and updates whose speed changes by a known share, with noise."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from mission_tui.fleet.marginal_gain import Records, Span, SteadyPeriod, TrainingSpan, steady_periods

__all__ = ["Company"]

WARM_S = 10.0


@dataclass
class Company:
    """Runs on one machine. `total[n]` are the summed steps/s of n runs; noise of `sd` remembers `memory` of itself each
    two seconds.
    """

    total: Sequence[float]
    sd: float = 0.05
    memory: float = 0.0
    update_s: float = 0.5
    seed: int = 0
    stays: list[TrainingSpan] = field(default_factory=list)
    elsewhere: list[tuple[float, float]] = field(default_factory=list)

    def comes(self, run: str, t: float, until: float | None = None, kind: str = "alike") -> None:
        """`run` is started at `t`; it is warm ten seconds later."""
        self.stays.append(TrainingSpan(run, t, t + WARM_S, until, kind))

    def records(self, now: float) -> Records:
        """What its runs have written by unix time `now`."""
        spans = self._spans(steady_periods(self.stays, now))
        return Records(
            spans=lambda run, begin, end, most: _cut([s for s in spans.get(run, []) if begin < s.end <= end], most),
            elsewhere=self._elsewhere,
            cores=4,
        )

    def _elsewhere(self, begin: float, end: float) -> float | None:
        seen = [cores for t, cores in self.elsewhere if begin <= t <= end]
        return sum(seen) / len(seen) if seen else None

    def _spans(self, stretches: Sequence[SteadyPeriod]) -> dict[str, list[Span]]:
        draws = random.Random(self.seed)
        spans: dict[str, list[Span]] = {}
        for period in stretches:
            noise = draws.gauss(0.0, self.sd)
            t, mixed = period.begin, math.exp(-self.update_s / 2.0 * math.log(1.0 / self.memory)) if self.memory else 0
            while t + self.update_s <= period.end:
                noise = mixed * noise + draws.gauss(0.0, self.sd * math.sqrt(1.0 - mixed * mixed))
                each = max(0.01, 1.0 + noise) * self.total[len(period.runs)] / len(period.runs)
                for run in period.runs:
                    spans.setdefault(run, []).append(Span(t, t + self.update_s, each))
                t += self.update_s
        return spans


def _cut(spans: list[Span], most: int) -> list[Span]:
    return spans[:most] if most >= 0 else spans[most:]
