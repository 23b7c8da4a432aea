"""`kl-persistent`: updates that keep leaving PPO's trust region.

Reads u = KL / (clip_range^2 / 2) with the current clip range. Healthy runs have a median u of 0.2 to 1.2 (health guide,
section 2). Persistent KL is a true statement about updates and no proof of failure, so it is critical only while the
return does not improve.
"""

from __future__ import annotations

import math
import statistics
from collections import deque

from mission_tui.fleet.findings import Severity
from mission_tui.fleet.health.hysteresis import Hysteresis
from mission_tui.fleet.health.improvement import Improvement
from mission_tui.fleet.health.rule import (
    Explanation,
    Row,
    halved_learning_rate,
    learning_rate_of,
    pressure_sentence,
    rounded,
)
from mission_tui.fleet.metrics import spoken
from mission_tui.fleet.sizes import BatchPlan
from mission_tui.fleet.spec import Schedule, Spec

__all__ = ["KlPersistent"]

NEEDED, WINDOW = 5, 8
WARNING, WARNING_LEFT = 2.0, 1.5
CRITICAL, CRITICAL_LEFT = 4.0, 2.5
SMALLEST_CLIP = 0.05
EARLY_SHARE = 0.25
HIGH_PRESSURE = 2.0
MANY_EPOCHS = 8
TAGS = ("train/approx_kl", "train/clip_range", "train/learning_rate", "train/n_epochs_done", "rollout/ep_rew_mean")


class KlPersistent:
    """One attempt's rule; blank rows are passed over."""

    id = "kl-persistent"

    def __init__(self, spec: Spec, plan: BatchPlan) -> None:
        self._spec = spec
        self._plan = plan
        self._rows: deque[tuple[Row, float]] = deque(maxlen=WINDOW)
        self._high = Hysteresis(NEEDED, WINDOW)
        self._very_high = Hysteresis(NEEDED, WINDOW)
        self._improvement = Improvement()
        self._stagnant = Hysteresis(1, WINDOW)

    def judge(self, row: Row) -> Severity | None:
        """Warning for u > 2 in 5 of 8 updates, critical for u > 4 in 5 of 8 while the return does not improve.

        Where `target_kl` ended the update within a quarter of its epochs, the KL is cut short and the update counts as
        over the warning level.
        """
        improving = self._improvement.look(row.metrics.get("rollout/ep_rew_mean"))
        if improving is not None:
            self._stagnant.look(over=not improving, calm=improving)
        u = self._u(row)
        if u is not None:
            self._rows.append((row, u))
            cut_short = self._cut_short(row)
            self._high.look(over=u > WARNING or cut_short, calm=u < WARNING_LEFT and not cut_short)
            self._very_high.look(over=u > CRITICAL, calm=u < CRITICAL_LEFT)
        if self._very_high.on and self._stagnant.on:
            return "critical"
        return "warning" if self._high.on or self._very_high.on else None

    def explain(self, severity: Severity) -> Explanation:
        """Cause and advice from the run's own gradient steps, learning rate, epochs and clip range."""
        row, _ = self._rows[-1]
        pressure, cause = pressure_sentence(self._plan, learning_rate_of(row, self._spec))
        if pressure < HIGH_PRESSURE:
            cause += "; that is not much, so look at a small batch, low entropy or a jump in the reward's scale"
        advice, assignment = self._advice(row, pressure)
        return Explanation(
            sentence=self._sentence(severity),
            cause=cause,
            advice=advice,
            advice_set=(assignment,),
            evidence=tuple(row.evidence(*TAGS) | {"u": spoken(round(u, 3))} for row, u in self._rows),
        )

    def _sentence(self, severity: Severity) -> str:
        very = severity == "critical"
        watched, level = (self._very_high, CRITICAL) if very else (self._high, WARNING)
        median = statistics.median(u for _, u in self._rows)
        tail = ", and the return is not improving" if very else ""
        return (
            f"KL outside the trust region: u > {level:g} in {watched.count} of {watched.looks} updates, "
            f"median {rounded(median)}{tail}"
        )

    def _advice(self, row: Row, pressure: float) -> tuple[str, str]:
        epochs = self._plan.n_epochs
        if pressure >= HIGH_PRESSURE and epochs >= MANY_EPOCHS:
            return "go through each rollout half as often", f"ppo.n_epochs={epochs // 2}"
        if self._spec.ppo.target_kl is None:
            target = 1.5 * self._radius(row)
            return "end an update once it has moved far enough", f"ppo.target_kl={target:.2g}"
        return "halve the learning rate", halved_learning_rate(self._spec)

    def _u(self, row: Row) -> float | None:
        kl = row.metrics.get("train/approx_kl")
        if kl is None:
            return None
        u = kl / self._radius(row)
        return None if math.isnan(u) else u

    def _radius(self, row: Row) -> float:
        """The KL at the edge of the clip range: clip_range^2 / 2."""
        written = self._spec.ppo.clip_range
        clip = row.metrics.get("train/clip_range", written.start if isinstance(written, Schedule) else written)
        clip = clip if clip > SMALLEST_CLIP else SMALLEST_CLIP  # NaN too, which no comparison lets through
        return clip * clip / 2.0

    def _cut_short(self, row: Row) -> bool:
        done = row.metrics.get("train/n_epochs_done")
        return self._spec.ppo.target_kl is not None and done is not None and done <= EARLY_SHARE * self._plan.n_epochs
