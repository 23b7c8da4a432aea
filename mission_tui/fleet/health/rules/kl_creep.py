"""`kl-creep`: updates that grow slowly until they reach the edge of the trust region.

The health guide's table lists no severity for it. It is information: u creeps in 25 of 38 healthy runs, so a CUSUM
alone is no finding; and of 9 runs in which it reached the edge too (a median u of 1), 8 learned well. What goes on to
leave the trust region is `kl-persistent`'s to warn of.
"""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.health.phrases import learning_rate_of, pressure_sentence, rounded
from mission_tui.fleet.health.returns import NOISE_SCALE
from mission_tui.fleet.health.rule import Explanation, Row, Rule, RuleContext
from mission_tui.fleet.health.trust_region import StepScale, changes_between, smaller_update_advice
from mission_tui.fleet.windows import Numbers, Window

LEAST_U = 1e-6
LEAST_SIGMA = 0.1
"""Logs that are rounded to few digits may not differ at all; a tenth is what one update varies by anyway."""

LARGEST_STEPS = 4
"""No single update may count for more than a quarter of the limit: spikes are not creep."""

LEAVE = 0.75
EVIDENCE = 12
TAGS = ("train/approx_kl", "train/clip_range", "train/learning_rate", "policy/std", "rollout/ep_rew_mean")


class KlCreep(Rule):
    """One attempt's rule; it learns what is usual from the first updates after the warm-up, and keeps to it.

    Once the trust region is left it is silent until the sum is down at 0: what comes after has not crept.
    """

    id = "kl-creep"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.kl_creep
        self._reference: list[float] = []
        self._usual: tuple[float, float] | None = None
        self._usual_row: Row | None = None
        self._recent = Numbers(limits.window)
        self._rows = Window[Row](EVIDENCE)
        self._scale = StepScale.shared(context)
        self._sum = 0.0
        self._on = False
        self._left = False

    def judge(self, row: Row) -> Severity | None:
        """Information once the sum passes its limit and the recent median has reached the edge of the trust region."""
        self._scale.update(row)
        u = self._scale.u(row)
        if u is None or not self.context.returns.warm:
            return "info" if self._on else None
        self._rows.append(row)
        self._recent.append(u)
        if self._usual is None:
            self._learn(row, _log(u))
            return None
        self._add(_log(u))
        self._on = self._crept()
        return "info" if self._on else None

    def explain(self, severity: Severity) -> Explanation:
        """From which KL to which, and what else changed on the way."""
        assert self._usual is not None
        assert self._usual_row is not None
        row, settings, limits = self._rows[-1], self.context.settings, self._limits
        rate = learning_rate_of(row, settings)
        cause, changed = pressure_sentence(settings, rate), changes_between(self._usual_row, row)
        gentle, assignments = smaller_update_advice(settings, row)
        now = statistics.median(self._recent)
        return Explanation(
            sentence=f"KL creeps up: {rounded(now)} x the safe KL at the median of {limits.window} updates; it was "
            f"{rounded(math.exp(self._usual[0]))} x around update {self._usual_row.update:,}",
            cause=f"{cause}; since then: {changed}" if changed else cause,
            advice=f"watch the return; if it stops improving, {gentle}",
            advice_set=assignments,
            evidence=tuple(line.evidence(*TAGS) for line in self._rows),
            signal="train/approx_kl",
            threshold=limits.least_u * self._scale.radius,
            window=limits.window,
        )

    def _learn(self, row: Row, log_u: float) -> None:
        self._reference.append(log_u)
        if len(self._reference) >= self._limits.reference:
            steps = [abs(later - earlier) for earlier, later in pairwise(self._reference)]
            sigma = NOISE_SCALE * statistics.median(steps) if steps else 0.0
            self._usual, self._usual_row = (statistics.median(self._reference), max(sigma, LEAST_SIGMA)), row
            self._reference.clear()

    def _add(self, log_u: float) -> None:
        assert self._usual is not None
        (median, sigma), limits = self._usual, self._limits
        step = min((log_u - median) / sigma - limits.slack_sigmas, limits.limit_sigmas / LARGEST_STEPS)
        # Bounded above, so that a run that calms down is known to have done so within two windows.
        self._sum = min(max(0.0, self._sum + step), 2.0 * limits.limit_sigmas)

    def _crept(self) -> bool:
        if self._sum <= (0.0 if self._on else self._limits.limit_sigmas):
            self._left = self._left and self._sum > 0.0
            return False
        persistent = self.context.limits.kl_persistent
        if statistics.median(list(self._recent)[-persistent.window :]) > persistent.warning:
            self._left = True
        least = self._limits.least_u * (LEAVE if self._on else 1.0)
        return not self._left and statistics.median(self._recent) >= least


def _log(u: float) -> float:
    return math.log(min(max(u, LEAST_U), 1.0 / LEAST_U))
