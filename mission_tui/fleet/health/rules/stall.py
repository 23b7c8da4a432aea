"""`stall`: episodes that grow longer without earning more, or that live at their step limit and get nowhere.

Three ways in. The trend of health guide section 3: length up by 20 % and significant while the return is not. The same
in outcomes: idle endings over 60 % and risen, while the return has not (where it has, the rule is `outcomes`); it is
over once return and wins have both risen since, as in a slow learner that has come through a dip. And life at the cap:
from 30 % of the budget on, 95 % of episodes at it with a known success under 5 %; unknown success is not 0.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.health.episode_endings import Endings, StepCap, shaping_remedy
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.windows import Numbers, Window

TAGS = ("rollout/ep_rew_mean", "rollout/ep_len_mean", "rollout/success_rate")
EVIDENCE = 12
NEEDED, CALM = 3, 10
PAID = 2.0
THIRDS = 1.5
"""A straight line changes by 1.5 times what lies between the medians of its first and last third."""
LARGEST_LAG_ONE = 0.99
"""Of a series that repeats itself entirely the variance would be infinite."""


class Stall(Rule):
    """One attempt's rule; updates that said no length and no return are passed over."""

    id = "stall"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.stall
        self._lengths = Numbers(limits.window)
        self._returns = Numbers(limits.window)
        self._seen = 0
        self._growing = _Growing(limits.looks, calm=max(1, limits.window // limits.every))
        self._endings = Endings.shared(context)
        self._idling = Hysteresis(NEEDED, CALM)
        self._idle_then = self._rise = self._level = self._gain = 0.0
        self._dip: tuple[float, float] | None = None
        """Return and share won when idle endings had risen; None where either is not known."""
        self._cap = StepCap(context, self._endings)
        self._capped = Hysteresis(NEEDED, CALM)
        self._evidence = Window[Row](EVIDENCE)

    def judge(self, row: Row) -> Severity | None:
        """Warning for the trends, critical for a trend over three windows and for life at the cap."""
        returns, limits = self.context.returns, self._limits
        length, value = row.metrics.get("rollout/ep_len_mean"), row.metrics.get("rollout/ep_rew_mean")
        if length is not None and value is not None and math.isfinite(length) and math.isfinite(value):
            self._lengths.append(length)
            self._returns.append(value)
            if self._seen % max(1, limits.window // EVIDENCE) == 0:
                self._evidence.append(row)
            self._seen += 1
            if returns.warm and self._seen % limits.every == 0 and len(self._lengths) == limits.window:
                self._check_lengths()
        if self._endings.update(row) and returns.warm:
            self._check_endings()
        self._cap.update(row)
        if returns.warm:
            self._capped.update(over=self._cap.over, calm=self._cap.calm)
        return self._severity()

    def explain(self, severity: Severity) -> Explanation:
        """What of the three it is, what a step pays, and how far ahead the run's discount looks."""
        advice, assignments = shaping_remedy(self.context.settings)
        sentence, threshold = self._sentence()
        return Explanation(
            sentence=sentence,
            cause=self._cause(),
            advice=advice,
            advice_set=assignments,
            evidence=tuple(it.evidence(*TAGS) for it in self._evidence),
            signal="rollout/ep_len_mean",
            threshold=threshold,
            window=self._limits.window,
        )

    def _severity(self) -> Severity | None:
        limits = self._limits
        long = self._growing.looks_on * limits.every >= (limits.critical_windows - 1) * limits.window
        if self._capped.on or (self._growing.on and long):
            return "critical"
        return "warning" if self._growing.on or self._idling.on else None

    def _check_lengths(self) -> None:
        """Cheap looks come first: most runs are not growing, and of those that are most are paid for it."""
        limits, lengths = self._limits, list(self._lengths)
        level, steps = statistics.median(lengths), len(lengths) - 1
        allowed = limits.return_share * self.context.returns.span
        rise = THIRDS * change_by_thirds(lengths)
        if rise < limits.length_leave * level:
            self._growing.update(over=False, calm=True)
            return
        gain = THIRDS * change_by_thirds(list(self._returns))
        grows = False
        if rise > limits.length_leave * level and gain < PAID * allowed:
            slope = theil_sen(lengths)
            rise = slope * steps
            if rise >= min(limits.length_leave, limits.length_rise) * level:
                gain = theil_sen(list(self._returns)) * steps
                grows = rise > limits.length_rise * level and gain < allowed and mann_kendall(lengths, slope) > limits.z
            if grows:
                self._rise, self._level, self._gain = rise, level, gain
        self._growing.update(over=grows, calm=rise < limits.length_leave * level or gain > PAID * allowed)

    def _check_endings(self) -> None:
        idle, rise = self._endings.idle_share, self._endings.rise
        if idle is None:
            return
        unpaid = rise is not None and not rise.is_paid
        if unpaid and rise is not None and not self._idling.on:
            self._idle_then = rise.idle_then
            won = self._endings.won_share
            self._dip = None if won is None else (rise.return_now, won)
        self._idling.update(over=unpaid, calm=idle < self.context.limits.outcomes.leave or self._is_overcome)

    @property
    def _is_overcome(self) -> bool:
        """Whether more is earned and more is won than when idle endings had risen."""
        returns, won = self.context.returns, self._endings.won_share
        if self._dip is None or won is None or returns.smooth is None:
            return False
        then, won_then = self._dip
        limits = self.context.limits.outcomes
        return won > won_then and returns.smooth - then > max(limits.return_share * returns.span, returns.noise)

    def _sentence(self) -> tuple[str, float | None]:
        """The words for what is worst, and the length that was passed."""
        cap, endings, settings = self._cap, self._endings, self.context.settings
        if self._capped.on:
            # Idle endings come long before the limit too: then no length was passed.
            limit = settings.max_episode_steps if endings.idle_share is None else None
            where = f"at the limit of {limit:,} steps" if limit is not None else "stalled or out of time"
            text = f"{cap.share or 0.0:.0%} of episodes end {where} and {cap.success or 0.0:.0%} succeed"
            return text, None if limit is None else self._limits.cap_share * limit
        if self._growing.on:
            start, window = self._level - self._rise / 2, self._limits.window
            level = (1.0 + self._limits.length_rise) * start
            way = "rose by only" if self._gain > 0.0 else "fell by"
            text = (
                f"episodes grew from {start:,.0f} to {start + self._rise:,.0f} steps in {window} updates while "
                f"the return {way} {abs(self._gain):.3g}"
            )
            return text, level if math.isfinite(level) else None
        idle = f"{endings.idle_share or 0.0:.0%} of episodes end stalled or out of time ({self._idle_then:.0%} before)"
        return f"{idle} while the return does not rise", None

    def _cause(self) -> str:
        """What a step pays on average, how episodes end, and whether the discount reaches the end of an episode."""
        said: list[str] = []
        if self._lengths and self._lengths[-1] > 0.0:
            length, value, gamma = self._lengths[-1], self._returns[-1], self.context.settings.gamma
            said.append(f"an episode of {length:,.0f} steps returns {value:.3g}, {value / length:.2g} a step")
            if gamma is not None and 0.0 < gamma < 1.0 and length > 2.0 / (1.0 - gamma):
                said.append(f"with gamma {gamma:g} the policy looks {1.0 / (1.0 - gamma):,.0f} steps ahead")
        words = self._endings.words()
        if words:
            said.append(f"episodes end in {words}")
        return "; ".join(said) or "this log has neither lengths nor outcomes"


class _Growing:
    """On after `needed` looks in a row, off after `calm` calm ones; `looks_on` counts looks since it went on."""

    def __init__(self, needed: int, calm: int) -> None:
        self._needed, self._calm_needed = needed, calm
        self._over = self._calm = 0
        self.looks_on = 0
        self.on = False

    def update(self, *, over: bool, calm: bool) -> None:
        self._over = self._over + 1 if over else 0
        self._calm = self._calm + 1 if calm else 0
        if self._over >= self._needed:
            self.on = True
        elif self._calm >= self._calm_needed:
            self.on = False
        self.looks_on = self.looks_on + 1 if self.on else 0


# Whether a short series goes somewhere: robust slope, and the test that it is no accident. The values are equally
# spaced and finite. What comes out of absurd values is absurd, but nothing raises.
def theil_sen(values: Sequence[float]) -> float:
    """The slope per step: the median of the slopes of all pairs (Theil 1950, Sen 1968).

    Up to 29 % of the values may be anything at all before it follows them.
    """
    count = len(values)
    if count < 2:
        return 0.0
    slopes: list[float] = []
    for distance in range(1, count):
        share = 1.0 / distance
        slopes += [(later - earlier) * share for earlier, later in zip(values, values[distance:], strict=False)]
    return statistics.median(slopes)


def mann_kendall(values: Sequence[float], slope: float) -> float:
    """The z of a monotone trend (Mann 1945, Kendall 1975), with ties and memory taken out of it; positive is up.

    A mean over the last 100 episodes remembers: neighbours agree without any trend. The variance is therefore inflated
    by (1 + rho) / (1 - rho), with rho the lag-one correlation of what is left once `slope` is taken out (the variance
    correction of Yue and Wang 2004); with the trend left in, every trend would explain itself away.
    """
    count = len(values)
    if count < 3:
        return 0.0
    score = 0
    for place, earlier in enumerate(values[:-1], start=1):
        later = values[place:]
        score += sum([value > earlier for value in later]) - sum([value < earlier for value in later])
    variance = count * (count - 1) * (2 * count + 5)
    variance -= sum(ties * (ties - 1) * (2 * ties + 5) for ties in Counter(values).values() if ties > 1)
    if variance <= 0 or score == 0:
        return 0.0
    rho = lag_one([value - slope * place for place, value in enumerate(values)])
    inflation = (1.0 + rho) / (1.0 - rho)
    return (score - math.copysign(1.0, score)) / math.sqrt(variance / 18.0 * inflation)


def lag_one(values: Sequence[float]) -> float:
    """The correlation of neighbours, 0 to 0.99; a negative one counts as none, since it would make trends surer."""
    mean = sum(values) / len(values) if values else 0.0
    rest = [value - mean for value in values]
    power = sum([value * value for value in rest])
    if not 0.0 < power < math.inf:
        return 0.0
    rho = sum([later * earlier for earlier, later in pairwise(rest)]) / power
    return min(LARGEST_LAG_ONE, max(0.0, rho))


def change_by_thirds(values: Sequence[float]) -> float:
    """Median of the last third minus that of the first: a cheap look at a trend, two thirds of its whole change."""
    third = len(values) // 3
    return statistics.median(values[-third:]) - statistics.median(values[:third]) if third else 0.0
