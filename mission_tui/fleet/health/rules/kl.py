"""`kl-persistent`: updates that keep leaving PPO's trust region.

Reads u = KL / (clip_range^2 / 2) with the current clip range, or that of the start where it decays. Healthy runs have a
median u of 0.2 to 1.2 (health guide, section 2). Persistent KL is a true statement about updates and no proof of
failure: information while the return rises or stays near its best (very large ones only where it holds still there, as
in a mission that is always won), critical only for very large ones while the return neither improves nor keeps half of
what it had gained. The first updates of a training go far by themselves, so until trends may be judged a warning takes
twice as much, in every update of the window. Where `target_kl` ends updates early the KL is cut short, and ending early
is what counts, unless it is so small that any update would end so. A mean KL that a few transitions of continuous
actions make, as under gSDE, counts for no warning: the share that was clipped tells.
"""

from __future__ import annotations

import statistics

from msgspec import Struct

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import spoken
from mission_tui.fleet.health.phrases import learning_rate_of, pressure_of, pressure_sentence, rounded
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.health.trust_region import (
    HIGH_PRESSURE,
    StepGravity,
    StepScale,
    is_tiny_target,
    smaller_update_advice,
)
from mission_tui.fleet.windows import Window

EARLY_SHARE = 0.25
NO_STEP, STILL_FOR = 1e-5, 2
"""A KL that is only rounding, for so many updates: the policy stands still."""
CONTINUOUS = {"train/std", "policy/std", "policy/std_min_ratio"}
FEW_SHARE = 1.0 / 3.0
"""Of the share that would be clipped if all transitions made the KL alike. Sick Gaussian policies clip half of it and
more, healthy ones under gSDE, whose noise depends on the state, a quarter at the median."""
TAGS = ("train/approx_kl", "train/clip_range", "train/learning_rate", "train/n_epochs_done", "rollout/ep_rew_mean")


class _Stretch(Struct, frozen=True):
    """The updates `first` to `last`, of which `hot` went too far."""

    first: int
    last: int = 0
    hot: int = 0


class KlPersistent(Rule):
    """One attempt's rule; blank rows are passed over."""

    id = "kl-persistent"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.kl_persistent
        self._rows = Window[tuple[Row, float]](limits.window)
        self._scale = StepScale.shared(context)
        self._high = Hysteresis(limits.needed, limits.window)
        self._very_high = Hysteresis(limits.needed, limits.window)
        self._hot: dict[Severity, _Stretch] = {}
        self._still = 0
        self._begins = False
        self._gravity = StepGravity(context, limits.window)

    def judge(self, row: Row) -> Severity | None:
        """Warning for u > 2 in 5 of 8 updates unless the return rises, critical for u > 4 if it does not improve. At
        the beginning of a training a warning for u > 4 in 8 of 8.

        Where `target_kl` ended the update within a quarter of its epochs, the KL is cut short and the update counts as
        over the warning level.
        """
        self._begins = self._begins or row.update <= 1
        self._gravity.update(row)
        self._scale.update(row)
        u = self._scale.u(row)
        if u is not None:
            self._rows.append((row, u))
            cut_short, limits = self._cut_short(row), self._limits
            few = u > limits.warning and self._of_few(row)
            over = (u > limits.warning and not few) or cut_short
            self._high.update(over=over, calm=u < limits.warning_leave and not cut_short)
            self._very_high.update(over=u > limits.critical, calm=u < limits.critical_leave)
            self._follow(row, u, few=few)
        if not (self._high.on or self._very_high.on):
            return None
        severity = self._gravity.of(very_large=self._very_high.on)
        if severity == "warning" and self._begins and not self.context.returns.warm:
            return "warning" if self._very_high.count == self._limits.window else "info"
        return severity

    def explain(self, severity: Severity) -> Explanation:
        """Cause and advice from the run's own gradient steps, learning rate, epochs and clip range."""
        row, _ = self._rows[-1]
        settings = self.context.settings
        rate = learning_rate_of(row, settings)
        pressure, cause = pressure_of(settings, rate), pressure_sentence(settings, rate)
        if pressure is not None and pressure < HIGH_PRESSURE:
            cause += "; that is little, so check for a small batch, low entropy or a jump in the scale of rewards"
        advice, assignments = smaller_update_advice(settings, row)
        level = self._limits.critical if severity == "critical" else self._limits.warning
        return Explanation(
            sentence=self._sentence(severity, level),
            cause=cause,
            advice=advice,
            advice_set=assignments,
            evidence=tuple(row.evidence(*TAGS) | {"u": spoken(round(u, 3))} for row, u in self._rows),
            signal="train/approx_kl",
            threshold=level * self._scale.radius,
            window=self._limits.window,
        )

    def _follow(self, row: Row, u: float, *, few: bool) -> None:
        """Which updates went too far, since the first of those that are counted now."""
        still = row.metrics["train/approx_kl"] < NO_STEP and row.metrics.get("train/clip_fraction", 0.0) == 0.0
        self._still = self._still + 1 if still else 0
        self.retell = self._still == STILL_FOR
        limits = self._limits
        if not self._hot and u <= limits.warning and u <= limits.critical:
            return  # as nearly always
        levels: tuple[tuple[Severity, float, Hysteresis], ...]
        levels = ("warning", limits.warning, self._high), ("critical", limits.critical, self._very_high)
        for severity, level, on in levels:
            known = self._hot.get(severity)
            # A policy that stands still since keeps what brought it there: the finding may stay open on that account.
            if known is not None and not on.on and not on.count and not self._still:
                del self._hot[severity]
            elif u > level and not (few and severity == "warning"):
                known = known or _Stretch(row.update)
                self._hot[severity] = _Stretch(known.first, row.update, known.hot + 1)

    def _sentence(self, severity: Severity, level: float) -> str:
        very = severity == "critical"
        cut_short = sum(self._cut_short(row) for row, _ in self._rows)
        if not very and cut_short >= self._limits.needed:
            return (
                f"target_kl ended {cut_short} of {len(self._rows)} updates within a quarter of their epochs: "
                "the first gradient steps already go too far"
            )
        tail = ", and the return is not improving" if very else ""
        if self._still >= STILL_FOR:
            tail = "; it has not moved since"
        hot = self._hot.get("critical" if very else "warning")
        watched, median = self._very_high if very else self._high, statistics.median(u for _, u in self._rows)
        if hot is None:
            median = median if median >= NO_STEP else 0.0  # rounding noise may be negative
            return f"KL is not back where it is safe: {rounded(median)} x the safe KL at the median{tail}"
        who = f"updates {hot.first:,}-{hot.last:,}"
        if hot.hot < hot.last - hot.first + 1:
            who = f"{hot.hot:,} of the {who}"
        if watched.count < self._limits.needed and self._still < STILL_FOR:
            # It entered earlier, and what has become worse since is the return.
            tail = f"; those since still {rounded(median)} x at the median{tail}"
        return f"{who} changed the policy too much: more than {level:g} x the safe KL{tail}"

    def _of_few(self, row: Row) -> bool:
        """Whether a few transitions of continuous actions make the KL, by how few were clipped."""
        clipped = row.metrics.get("train/clip_fraction")
        if clipped is None or not any(tag in row.metrics for tag in CONTINUOUS):
            return False
        return clipped < FEW_SHARE * self._scale.clipped_of(row.metrics["train/approx_kl"])

    def _cut_short(self, row: Row) -> bool:
        settings, done = self.context.settings, row.metrics.get("train/n_epochs_done")
        if settings.target_kl is None or settings.n_epochs is None or done is None or is_tiny_target(settings, row):
            return False
        return done <= EARLY_SHARE * settings.n_epochs
