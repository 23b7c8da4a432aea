"""`resume-probe`: whether a resumed training is what it was: return, entropy, first ratio, first updates.

The trainer plays a few episodes before it goes on, and says what was recorded with the checkpoint. It is said at once
as information; what is off, in the first updates too, which have tighter limits here than later ones, is a warning.
A run that moved its policy as far before the checkpoint is as it was: then only what goes beyond that is off.
After an exact resume nothing was played, and no step is watched: the numbers are those of the run that never stopped.
"""

from __future__ import annotations

import math

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import Metric, PolicyStep, Resumed, number
from mission_tui.fleet.health.phrases import rounded
from mission_tui.fleet.health.rule import Explanation, Row, Rule, RuleContext
from mission_tui.fleet.health.trust_region import StepScale, clipped_of_longer
from mission_tui.fleet.windows import Window

KL, CLIPPED, FIRST, ENTROPY = "train/approx_kl", "train/clip_fraction", "train/ratio_first", "train/entropy_loss"
CLIP_RANGE = "train/clip_range"
TAGS = ("rollout/ep_rew_mean", KL, CLIPPED, FIRST, ENTROPY, "train/learning_rate")
_SAID = 3
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
        self._scale = StepScale.shared(context)
        resumed = context.settings.resumed
        before = _Steps(context, () if resumed is None else resumed.steps_before)
        self._u_limit, self._clip_limit = before.limits
        self._u_before, self._clipped_before = before.largest
        self._u = self._clipped = 0.0
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
        if not resumed.exact:
            self._watch(row)
        return "warning" if self._troubles else "info"

    def explain(self, severity: Severity) -> Explanation:
        """What was compared, and what is off."""
        resumed, limits = self.context.settings.resumed, self._limits
        assert resumed is not None
        known = "; ".join(_compared(resumed, self._rows[0]))
        off = "; ".join(self._troubles.values())
        by_clipping = self._clipped > 0.0 and not self._u
        return Explanation(
            sentence=f"resumed, but not as it was: {off}" if off else f"{_fine(resumed)}: {known}",
            cause=f"{self._came_of()}: {known}"
            if off
            else f"{self._why_not_exact(resumed)}the next {limits.updates} updates have tighter limits",
            advice="go back to the checkpoint and resume it unchanged, or with one of the remedies that resume offers"
            if off
            else "",
            evidence=tuple(row.evidence(*TAGS) for row in self._rows),
            signal=CLIPPED if by_clipping else KL,
            threshold=self._clip_limit if by_clipping else self._u_limit * self._scale.radius,
            window=limits.updates,
        )

    def _came_of(self) -> str:
        """What it comes of. The return was played and the first ratio taken before the first step, which no setting of
        learning bears on; how far updates go, and the mean entropy of one, are what changed settings make of them.
        """
        changes = self.context.changes
        if not changes:
            return "the checkpoint, and what changed with the resume"
        said = ", ".join(changes[:_SAID]) + (f" and {len(changes) - _SAID} more" if len(changes) > _SAID else "")
        if self._troubles.keys() <= {"updates", "entropy"}:
            return f"it was resumed with other settings, and steps go as far as these make them: {said}"
        return f"the checkpoint, and what was changed with the resume ({said})"

    def _why_not_exact(self, resumed: Resumed) -> str:
        """Of a GPU, where nothing else need have changed."""
        _, device = self.context.settings.in_use
        if resumed.exact or device in ("", "cpu"):
            return ""
        return f"no resume on {device} is called exact, since its sums may be rounded in another order; "

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
            self._troubles["ratio"] = f"ratios of the first minibatch are {rounded(first)} away from 1"
        before, after = resumed.entropy_before, row.metrics.get(ENTROPY)
        if before is None or after is None:
            return
        if abs(after - before) > max(limits.entropy_share * abs(before), NAT):
            self._troubles["entropy"] = f"entropy {-after:.3g}, and {-before:.3g} before the checkpoint"

    def _watch(self, row: Row) -> None:
        """The first updates, with tighter limits than any later one."""
        u, clipped = self._scale.u(row), row.metrics.get(CLIPPED)
        far = u is not None and u > self._u_limit
        if u is not None and far:
            self._u = max(self._u, u)
        if clipped is not None and (clipped := self._scale.clipped(clipped)) > self._clip_limit:
            self._clipped, far = max(self._clipped, clipped), True
        self._recent.append(far)
        if (count := sum(self._recent)) >= self._limits.needed:
            looked = f"{count} of {len(self._recent)} updates after it"
            self._troubles["updates"] = f"{looked} moved the policy too far ({self._how_far})"

    @property
    def _how_far(self) -> str:
        """What was beyond its limit, with what it was before the checkpoint where that is known."""
        said = []
        if self._u:
            said.append(f"u up to {self._u:.2g}" + (f", {self._u_before:.2g} before" if self._u_before else ""))
        if self._clipped:
            before = f", {self._clipped_before:.0%} before" if self._clipped_before else ""
            said.append(f"up to {self._clipped:.0%} clipped{before}")
        return "; ".join(said)


class _Steps:
    """How far the last updates before a checkpoint moved the policy, by u and by the share that was clipped."""

    def __init__(self, context: RuleContext, steps: tuple[PolicyStep, ...]) -> None:
        self._limits = context.limits.resume_probe
        self._us: list[float] = []
        self._shares: list[float] = []
        scale = StepScale(context.settings)
        for step in steps:
            told = {KL: step.kl, CLIPPED: step.clip_fraction, CLIP_RANGE: step.clip_range}
            known = {tag: value for tag, metric in told.items() if (value := number(metric)) is not None}
            row = Row(0, 0, 0, {tag: value for tag, value in known.items() if math.isfinite(value)})
            scale.update(row)
            if (u := scale.u(row)) is not None:
                self._us.append(u)
            if (share := row.metrics.get(CLIPPED)) is not None:
                self._shares.append(scale.clipped(share))

    @property
    def largest(self) -> tuple[float, float]:
        """The largest u and the largest share; 0 where none is known."""
        return max(self._us, default=0.0), max(self._shares, default=0.0)

    @property
    def limits(self) -> tuple[float, float]:
        """From which u and which share on an update after the checkpoint went too far."""
        limits = self._limits
        u, share = self._reached(self._us), self._reached(self._shares)
        # u grows with the square of a step's length.
        risen = clipped_of_longer(share, math.sqrt(limits.rise))
        return max(limits.u, limits.rise * u), max(limits.clip_fraction, risen)

    def _reached(self, numbers: list[float]) -> float:
        """What as many of them as would be too many went up to, within any window."""
        limits = self._limits
        windows = (numbers[max(0, end - limits.window) : end] for end in range(limits.needed, len(numbers) + 1))
        return max((sorted(window)[-limits.needed] for window in windows), default=0.0)


def _fall(resumed: Resumed) -> tuple[float | None, float]:
    """How much lower the return is than it was, and the standard error of that difference."""
    if resumed.mean is None or resumed.mean_before is None or not resumed.episodes or not resumed.episodes_before:
        return None, 0.0
    now, was = float(resumed.mean), float(resumed.mean_before)
    # Of few episodes that scored little the spread is small too, where most score little and some a lot.
    spread = max(float(resumed.std or 0.0), float(resumed.std_before or 0.0))
    error = spread * math.sqrt(1.0 / resumed.episodes + 1.0 / resumed.episodes_before)
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
        said.append(f"first ratio off 1 by {rounded(row.metrics[FIRST])}")
    return said


def _float(metric: Metric | None) -> float:
    return math.nan if metric is None else float(metric)
