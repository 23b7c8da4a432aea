"""`kl-spike`: one update that moved the policy far beyond its trust region, and the fall of the return that follows.

A spike alone is no finding: 5 healthy Pendulum runs have 32 of them, up to u = 540, and 30 changed nothing. So it is
information once the return has lost half of what counts as a fall, and critical at the whole; only where no return is
known does the spike itself speak, since nothing shows that it was harmless. A return that is still above what the
environment calls solved has lost nothing that would have to be mended: the range of one that has long been there is
narrow, and a fall by a part of it is no disaster.
"""

from __future__ import annotations

import statistics

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.health.phrases import learning_rate_of, pressure_sentence, rounded
from mission_tui.fleet.health.rule import Explanation, Row, Rule, RuleContext
from mission_tui.fleet.health.trust_region import StepScale, changes_between, smaller_update_advice
from mission_tui.fleet.windows import Numbers, Window

FEWEST = 10
"""Updates before a median means anything."""

LONGEST_WATCH = 200
EVIDENCE = 8
TAGS = ("train/approx_kl", "train/clip_fraction", "train/clip_range", "train/learning_rate", "rollout/ep_rew_mean")

MOST_TIMES = 1e4


class KlSpike(Rule):
    """One attempt's rule. The return before the spike is the reference.

    A spike that comes while the return is below it only prolongs the watch; after that it is watched in the first one's
    place. What falls once the first one's own watch would be over is told of the later one: to go back to before the
    first would give up all that was learned since.
    """

    id = "kl-spike"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.kl_spike
        self._us = Numbers(limits.window)
        self._rows = Window[Row](EVIDENCE)
        self._scale = StepScale.shared(context)
        self._before: float | None = None
        self._calm: Row | None = None
        self._spike: tuple[Row, float, float] | None = None
        self._reference: float | None = None
        self._watched = 0
        self._answerable_until = 0
        self._latest_seen: float | None = None
        self._largest_drop, self._since_drop = 0.0, 0
        self._severity: Severity | None = None

    def judge(self, row: Row) -> Severity | None:
        """Information at half a fall after a spike, critical at a whole one until half of it has been made up."""
        self._rows.append(row)
        self._scale.update(row)
        u = self._scale.u(row)
        if u is not None:
            if self._is_spike(u):
                self._start(row, u)
            elif self._watched == 0 and self._severity is None:
                self._calm = row
            self._us.append(u)
        if self._watched > 0 or self._severity is not None:
            self._severity = self._consequence()
            self._watched = max(0, self._watched - 1)
        self._before = self.context.returns.latest
        return self._severity

    def explain(self, severity: Severity) -> Explanation:
        """The spike against the run's own median, what the return lost, and what had changed before it."""
        assert self._spike is not None
        row, u, median = self._spike
        settings, rate = self.context.settings, learning_rate_of(row, self.context.settings)
        cause = pressure_sentence(settings, rate)
        changed = changes_between(self._calm, row) if self._calm is not None else ""
        gentle, assignments = smaller_update_advice(settings, row)
        shown = [row, *(later for later in self._rows if later.update > row.update)]
        return Explanation(
            sentence=f"update {row.update:,} changed the policy too much: {rounded(u)} x the safe KL, "
            f"{_against_usual(u, median)}{self._fallen()}",
            cause=f"{cause}; just before: {changed}" if changed else cause,
            advice=f"roll back to the last good checkpoint from before update {row.update:,}, and {gentle}",
            advice_set=assignments,
            evidence=tuple(line.evidence(*TAGS) for line in shown),
            signal="train/approx_kl",
            threshold=max(self._limits.u, self._limits.times_median * median) * self._scale.radius,
            window=self._limits.window,
        )

    def _is_spike(self, u: float) -> bool:
        limits = self._limits
        return u > limits.u and len(self._us) >= FEWEST and u > limits.times_median * statistics.median(self._us)

    def _start(self, row: Row, u: float) -> None:
        known = [value for value in (self._before, self.context.returns.latest) if value is not None]
        within = self._within(row)
        own = self._watched == 0 or self._was_harmless()
        if self._severity is None and (own or row.update > self._answerable_until):
            self._spike = row, u, statistics.median(self._us)
            self._answerable_until = row.update + within
        if self._severity is None and own:
            self._reference = max(known, default=None)
            self._latest_seen, self._largest_drop, self._since_drop = self._before, 0.0, 0
        elif self._reference is not None:
            self._reference = max(self._reference, *known)
        self._watched = 1 + within

    def _was_harmless(self) -> bool:
        """Whether the return is where it was before the spike that is watched, or above: the next one is on its own."""
        latest = self.context.returns.latest
        return latest is not None and self._reference is not None and latest >= self._reference

    def _within(self, row: Row) -> int:
        """Updates until the window of the mean return holds only episodes of the policy after the spike."""
        returns, settings = self.context.returns, self.context.settings
        length = row.metrics.get("rollout/ep_len_mean", 0.0)
        updates = 0.0
        if returns.episodes:
            updates = settings.stats_window * returns.updates / returns.episodes
        elif settings.rollout and 0.0 < length < 1e9:
            updates = settings.stats_window * length / settings.rollout
        return max(self._limits.within, min(LONGEST_WATCH, round(updates)))

    def _consequence(self) -> Severity | None:
        latest, limits, threshold = self.context.returns.latest, self._limits, self.context.settings.reward_threshold
        if latest is None or self._reference is None:
            return "info" if self._watched > 0 else None
        share = (self._reference - latest) / self._whole_fall()
        self._follow_drops(latest)
        solved = threshold is not None and latest >= threshold
        if solved or (share >= 1.0 and self._severity != "critical" and not self._is_of_many(latest)):
            seen = share >= limits.watch_share or self._severity is not None
            return "info" if self._watched > 0 and seen else None
        if share >= 1.0 and (self._watched > 0 or self._severity == "critical"):
            return "critical"
        if self._severity == "critical":
            return "critical" if share > limits.watch_share else None
        seen = share >= limits.watch_share or self._severity == "info"
        return "info" if self._watched > 0 and seen else None

    def _follow_drops(self, latest: float) -> None:
        drop = self._latest_seen - latest if self._latest_seen is not None else 0.0
        self._since_drop += 1
        if drop >= self._largest_drop:
            self._largest_drop, self._since_drop = drop, 0
        self._latest_seen = latest

    def _is_of_many(self, latest: float) -> bool:
        """Whether more than one update's episodes are so poor: a single disaster moves the mean of a hundred, too.

        Then half of the fall is there without its largest step, or has outlasted the episodes of that.
        """
        assert self._reference is not None
        rest, window = self._reference - latest - self._largest_drop, self.context.returns.updates_of_window
        return window <= 1.0 or self._since_drop >= window or rest >= self._whole_fall() / 2.0

    def _whole_fall(self) -> float:
        returns, limits = self.context.returns, self._limits
        return max(limits.fall_share * returns.span, limits.fall_sigmas * returns.noise, 1e-12)

    def _fallen(self) -> str:
        latest = self.context.returns.latest
        if latest is None or self._reference is None:
            return "; no return is recorded, so its effect is not known"
        lost = (self._reference - latest) / max(self.context.returns.span, 1e-12)
        return f"; the return fell from {self._reference:.4g} to {latest:.4g}, {lost:.0%} of its range"


def _against_usual(u: float, median: float) -> str:
    """How far it went compared with the updates before; of those that hardly moved no multiple means anything."""
    return f"{rounded(u / median)} x its usual KL" if u <= MOST_TIMES * median else "after updates that hardly moved it"
