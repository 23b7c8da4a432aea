"""`resume-probe`: whether a resumed training is what it was: return, entropy, first ratio, first updates.

The trainer plays a few episodes before it goes on, and says what was recorded with the checkpoint. It is said at once
as information; what is off, in the first updates too, which have tighter limits here than later ones, is a warning.
After an exact resume nothing was played: the numbers are those of the run that never stopped.
"""

from __future__ import annotations

import math

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import Metric, Resumed
from mission_tui.fleet.health.rule import Explanation, Row, Rule, RuleContext
from mission_tui.fleet.health.trust_region import StepScale
from mission_tui.fleet.windows import Window

KL, CLIPPED, FIRST, ENTROPY = "train/approx_kl", "train/clip_fraction", "train/ratio_first", "train/entropy_loss"
TAGS = ("rollout/ep_rew_mean", KL, CLIPPED, FIRST, ENTROPY, "train/learning_rate")
NAT = 0.1
"""An entropy may differ by this much however small it is."""


class ResumeProbe(Rule):
    """One attempt's rule; silent in attempts that begin from nothing, and over after its updates."""

    id = "resume-probe"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = context.limits.resume_probe
        self._rows = Window[Row](self._limits.updates)
        self._recent = Window[bool](self._limits.window)
        self._scale = StepScale(context.settings)
        self._us: list[float] = []
        self._seen = 0
        self._troubles: dict[str, str] = {}

    def judge(self, row: Row) -> Severity | None:
        """Information, or a warning from the first thing that is off; None once the updates are over."""
        resumed = self.context.settings.resumed
        if resumed is None or self._seen >= self._limits.updates:
            return None
        self._seen += 1
        self._rows.append(row)
        self._scale.update(row)
        if self._seen == 1:
            self._compare(resumed, row)
        self._watch(row)
        return "warning" if self._troubles else "info"

    def explain(self, severity: Severity) -> Explanation:
        """What was compared, and what is off."""
        resumed, limits = self.context.settings.resumed, self._limits
        assert resumed is not None
        known = "; ".join(_compared(resumed, self._rows[0]))
        off = "; ".join(self._troubles.values())
        return Explanation(
            sentence=f"resumed, but not as it was: {off}" if off else f"{_fine(resumed)}: {known}",
            cause=f"the checkpoint, and what changed with the resume: {known}"
            if off
            else f"the next {limits.updates} updates have tighter limits",
            advice="go back to the checkpoint and resume it unchanged, or with one of the remedies that resume offers"
            if off
            else "",
            evidence=tuple(row.evidence(*TAGS) for row in self._rows),
            signal=KL,
            threshold=limits.u * self._scale.radius,
            window=limits.updates,
        )

    def _compare(self, resumed: Resumed, row: Row) -> None:
        settings, limits = self.context.settings, self._limits
        fall, error = _fall(resumed)
        was, now = _float(resumed.mean_before), _float(resumed.mean)
        if fall is not None and fall > max(limits.sigmas * error, limits.share * abs(was)):
            self._troubles["return"] = (
                f"return {now:.4g} over {resumed.episodes} episodes against {was:.4g} recorded with the checkpoint, "
                f"{fall / error if error else math.inf:.1f} standard errors less"
            )
        first = row.metrics.get(FIRST)
        tolerance = self.context.limits.ratio
        if first is not None and first > (tolerance.first_reduced if settings.reduced_precision else tolerance.first):
            self._troubles["ratio"] = f"ratios of the first minibatch are {first:.2g} away from 1"
        before, after = resumed.entropy_before, row.metrics.get(ENTROPY)
        if before is None or after is None:
            return
        if abs(after - before) > max(limits.entropy_share * abs(before), NAT):
            self._troubles["entropy"] = f"entropy {-after:.3g}, and {-before:.3g} before the checkpoint"

    def _watch(self, row: Row) -> None:
        """The first updates, with tighter limits than any later one."""
        limits, u, clipped = self._limits, self._scale.u(row), row.metrics.get(CLIPPED)
        outside = clipped is not None and self._scale.clipped(clipped) > limits.clip_fraction
        self._recent.append((u is not None and u > limits.u) or outside)
        if u is not None:
            self._us.append(u)
        if sum(self._recent) >= limits.needed:
            largest = max(self._us, default=0.0)
            self._troubles["updates"] = (
                f"{sum(self._recent)} of {len(self._recent)} updates after it moved the policy too far "
                f"(u up to {largest:.2g})"
            )


def _fall(resumed: Resumed) -> tuple[float | None, float]:
    """How much lower the return is than it was, and the standard error of that difference."""
    if resumed.mean is None or resumed.mean_before is None or not resumed.episodes or not resumed.episodes_before:
        return None, 0.0
    now, was = float(resumed.mean), float(resumed.mean_before)
    error = math.sqrt(
        float(resumed.std or 0.0) ** 2 / resumed.episodes
        + float(resumed.std_before or 0.0) ** 2 / resumed.episodes_before
    )
    fall = was - now
    return (fall, error) if math.isfinite(fall) and math.isfinite(error) else (None, 0.0)


def _fine(resumed: Resumed) -> str:
    played = resumed.mean is not None and resumed.mean_before is not None
    if resumed.exact:
        return "resumed exactly where it was"
    return "resumed, as good as before" if played else "resumed, and nothing is off so far"


def _compared(resumed: Resumed, row: Row) -> list[str]:
    said = []
    if resumed.mean is not None and resumed.mean_before is not None:
        said.append(f"return {float(resumed.mean):.4g} ({float(resumed.mean_before):.4g} before)")
    elif resumed.exact:
        said.append("exact, so nothing was played")
    else:
        said.append("return not compared")
    if ENTROPY in row.metrics and resumed.entropy_before is not None:
        said.append(f"entropy {-row.metrics[ENTROPY]:.3g} ({-resumed.entropy_before:.3g})")
    if FIRST in row.metrics:
        said.append(f"first ratio off 1 by {row.metrics[FIRST]:.1g}")
    return said


def _float(metric: Metric | None) -> float:
    return math.nan if metric is None else float(metric)
