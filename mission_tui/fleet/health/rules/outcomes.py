"""`outcomes`: a run whose return rises while its episodes end in nothing, or that wins none long after it should.

It compares how episodes end now with how they ended 50 updates ago. The same rise of idle endings without a rising
return belongs to `stall`. That nothing is won is only said where winning has a word (see `endings`).
"""

from __future__ import annotations

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import Metric, spoken
from mission_tui.fleet.health.episode_endings import Endings, Rise, shaping_remedy
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.windows import Window

NEEDED, WINDOW = 3, 10
EVIDENCE = 12
TAGS = ("rollout/ep_rew_mean", "rollout/ep_len_mean")


class Outcomes(Rule):
    """One attempt's rule; updates in which no episode ended are passed over."""

    id = "outcomes"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = context.limits.outcomes
        self._endings = Endings.shared(context)
        self._misled = Hysteresis(NEEDED, WINDOW)
        self._winless = Hysteresis(NEEDED, WINDOW)
        self._rise: Rise | None = None
        self._evidence = Window[dict[str, Metric]](EVIDENCE)
        self._looks = 0

    def judge(self, row: Row) -> Severity | None:
        """Warning for idle endings over 60 % and rising while the return rises, critical for no win after 30 %."""
        endings, limits = self._endings, self._limits
        if endings.update(row) and self.context.returns.warm and endings.idle_share is not None:
            rise = endings.rise
            misled = rise is not None and rise.is_paid
            if misled and not self._misled.on:
                self._rise = rise
            self._misled.update(over=misled, calm=endings.idle_share < limits.leave)
            won = endings.won_share
            winless = won == 0.0 and endings.full and self._late(row)
            self._winless.update(over=winless, calm=won is not None and won > 0.0)
            if self._looks % (limits.updates // EVIDENCE + 1) == 0:
                self._evidence.append(row.evidence(*TAGS) | self._shares())
            self._looks += 1
        if self._winless.on:
            return "critical"
        return "warning" if self._misled.on else None

    def explain(self, severity: Severity) -> Explanation:
        """How episodes end, against what the return says of them."""
        settings, endings = self.context.settings, self._endings
        advice, assignments = shaping_remedy(settings)
        words, rise = endings.words(), self._rise
        if severity == "critical" or rise is None:
            share = self._limits.after_share
            sentence = f"none of the last {endings.episodes:,} episodes was won, with {share:.0%} of the budget used"
            cause = f"they end in {words}"
        else:
            sentence = (
                f"{rise.idle_now:.0%} of episodes end stalled or out of time ({rise.idle_then:.0%} before) while the "
                "return rises"
            )
            cause = (
                f"the reward pays for something other than winning: the return went from {rise.return_then:.3g} to "
                f"{rise.return_now:.3g}, and episodes end in {words}"
            )
        return Explanation(
            sentence=sentence,
            cause=cause,
            advice=advice,
            advice_set=assignments,
            evidence=tuple(self._evidence),
            signal="rollout/ep_len_mean",
            window=self._limits.updates,
        )

    def _late(self, row: Row) -> bool:
        total = self.context.settings.total_timesteps
        return total is not None and row.timesteps >= self._limits.after_share * total

    def _shares(self) -> dict[str, Metric]:
        endings = self._endings
        return {"won": spoken(round(endings.won_share or 0.0, 3)), "idle": spoken(round(endings.idle_share or 0.0, 3))}
