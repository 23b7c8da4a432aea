"""`explained-variance`: values that say nothing of the returns, long after they should.

Healthy runs have an explained variance of 0 for their first 40 to 90 updates, hence the warm-up. Where a policy has
converged there is little variance left to explain, so nothing is said of a run that does well, nor of one whose return
holds still at its best: no better value function could give it anything.

To explain nothing is a fault only where there is something to explain: once the return has moved by more than its own
noise, or values did explain it before, or they are worse than a constant. An explained variance that is 0 to the third
digit is one anyway, because chance alone moves it further: such values are the same for every state. A value function
that nothing teaches, or that looks no step ahead, is told of long before the warm-up is over (`critic`), as information
while a run holds near its best what it has really gained, unless all targets are the same: of those no policy can learn
anything, and what the return does is chance. Where every return was the same so far, as before the first
reward, even values far worse than a constant mean nothing while their loss comes down; where a reward was met once or
twice by chance, those of an update that met none mean nothing.

An update that is a small piece of one long episode may have returns that hardly vary: values that miss them by next to
nothing are worse than a constant there. So nothing is said where they explain a good part of what returns varied by in
all of those updates together, most of which is in a few.
"""

from __future__ import annotations

import math
import statistics

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.health.critic import ValueHorizon, critic_warm_up
from mission_tui.fleet.health.doing_well import REAL_GAIN, Success
from mission_tui.fleet.health.phrases import (
    ENVIRONMENT_FIRST,
    NONE_KNOWN,
    compared_first,
    is_large,
    learning_rate_of,
    normalise_anew,
    pressure_of,
    pressure_sentence,
    reward_scale_sentence,
    rounded,
)
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.health.trust_region import RateCourse
from mission_tui.fleet.health.usual_settings import FURTHER_AHEAD, GIVE_WEIGHT, USUAL_GAMMA, USUAL_VALUE_COEF
from mission_tui.fleet.windows import Numbers, Sorted, Window

TAG = "train/explained_variance"
TAGS = (TAG, "train/value_loss", RETURN)
EVIDENCE = 12
FLAT, LOOKS, AT_ONCE = 12, 16, 6
ONCE_GOOD = 0.3
SAME_EVERYWHERE = 1e-3
NO_DIFFERENCE = 1e-6
"""More than rounding leaves of an explained variance where all values are the same to the last digit."""
AT_FIRST = 2
SLOW, LARGEST_RATE = 0.03, 1e-2
"""Of the reference's update pressure: 50 updates of one gradient step of 1e-4 taught values nothing."""
LEARNED_SHARE = 0.5
RATE_SPENT = 0.1
"""Below this share of the first learning rate a schedule lets nobody learn any more, the values included."""
FAR_HORIZON = 500.0
TINY_SHARE, SMALL_ERROR = 0.1, 0.05
"""Of what values miss by, a return that is lost in it; and that error where rewards are as they are: values of
normalised ones miss by about 1 where they explain nothing.
"""
VALUE_COEF = 1.0
CAUTIOUS_GAMMA = 0.95
"""For a task of which much is learned without looking ahead: 0.99 lost a seventh of the rare large rewards of one."""
HARDLY_VARIES = 1e-5
"""Of the widest variance of targets so far, below which an update met no reward where hardly any was met before."""


class ExplainedVariance(Rule):
    """One attempt's rule; updates without the signal change nothing."""

    id = "explained-variance"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.explained_variance
        self._warm_up = critic_warm_up(context)
        self._rate = RateCourse(context.settings)
        self._risen = self._compares = False
        self._rows = Window[Row](EVIDENCE)
        self._values = Sorted(limits.critical_updates)
        self._missed, self._varied_by = Numbers(limits.critical_updates), Numbers(limits.critical_updates)
        self._poor = Hysteresis(limits.needed, limits.window)
        self._harmful = Hysteresis(1, limits.critical_updates)
        self._stagnant = Hysteresis(FLAT, LOOKS)
        self._on = self._harms = self._worse_now = False
        self._best, self._good_until = -math.inf, 0
        self._first_losses: list[float] = []
        self._widest, self._met_none = 0.0, 0
        self._varied: bool | None = None
        self._nans = 0
        self._return: float | None = None
        self._success = Success.shared(context, limits.best_share)
        self._horizon = ValueHorizon(context.settings)
        self._useless, self._known = Hysteresis(FLAT, LOOKS), Hysteresis(AT_ONCE, AT_ONCE)
        self._row: Row | None = None

    def judge(self, row: Row) -> Severity | None:
        """Warning below 0.05 in 24 of 30 updates with a flat return, critical for a median of 20 below -0.5.

        Critical too for 20 NaN in a row while the mean return changed each time: NaN says that returns do not vary.
        """
        self._row = row
        self._success.update(row)
        self._horizon.update(row)
        self._take_in(row)
        returns = self.context.returns
        spent = self._rate.update(row, RATE_SPENT)
        if self._is_useless():
            # Such values are no hindrance so far: of trainings like that some learned as well as with others, and three
            # did worse once they had them. That stays so while the return is only noisier.
            self._compares = self._compares or self._success.gained
            return "info" if self._holds and not self._horizon.tells_nothing else "warning"
        if self._nans >= self._limits.critical_updates and not (self._success.near_best or self._success.rises_now):
            return "critical"
        if not returns.warm or returns.updates < self._warm_up or self._success.solved or spent:
            return None
        self._stagnant.update(over=returns.flat is True, calm=not returns.flat)
        asked = self._poor.count >= self._limits.needed and self._is_stuck
        opened = self._on or (asked and not self._explain_together and self._could_explain())
        self._on = self._poor.on and opened and not self._success.at_ceiling
        # It begins with what is so now, and not with what was before there were trends to judge by.
        self._harms = self._harmful.on and self._success.poor and (self._harms or self._worse_now)
        if self._harms:
            return "critical"
        return "warning" if self._on else None

    def explain(self, severity: Severity) -> Explanation:
        """Cause and advice from the scale of rewards, the horizon of gamma, and the weight of the value loss."""
        limits, row = self._limits, self._row
        assert row is not None
        critical = severity == "critical"
        advice, assignments = self._advice(row)
        return Explanation(
            sentence=self._sentence(severity),
            cause=self._cause(row),
            advice=advice,
            advice_set=assignments,
            evidence=tuple(row.evidence(*TAGS) for row in self._rows or (row,)),
            signal=TAG,
            threshold=limits.critical if critical else limits.warning,
            window=limits.critical_updates if critical else limits.window,
            compare_first=self._useless.on and self._compares,
        )

    @property
    def _is_stuck(self) -> bool:
        success, returns = self._success, self.context.returns
        stuck = success.poor or (self._stagnant.on and not success.near_best)
        # A return that comes back from a fall finds no new best for long, and rises all the same.
        return stuck and not (success.well or returns.improving)

    def _is_useless(self) -> bool:
        """Whether values cannot help, because nothing teaches them or because they look no step ahead.

        Said long before a warm-up that waits for values to learn, and not of a run that goes well without them.
        """
        risen = self.context.settings.gamma is None and self._has_risen()
        near, untaught = self._horizon.is_none(risen=risen), self.context.losses.values_are_untaught
        useless = (near or untaught) and not (self._success.solved or self._success.at_ceiling)
        known = useless and (untaught or self.context.settings.gamma is not None)
        if known and not (self._useless.on or self._known.on):
            # What is known needs no second look, only a return that neither rises nor came to rest at its best.
            known = not (self._success.may_rise or (self._holds and self._success.rises_now))
        self._known.update(over=known, calm=not known)
        useless = useless and (self._useless.on or not self._success.rises_now)
        self._useless.update(over=useless, calm=not useless)
        self._useless.on = self._useless.on or self._known.on
        # Twelve updates have said so already.
        self._useless.on = self._useless.on or (useless and self._horizon.tells_nothing)
        return self._useless.on

    def _has_risen(self) -> bool:
        """Whether the return rose; what was a clear rise once does not become none because it gets noisier."""
        risen = self._success.gain > REAL_GAIN * self.context.returns.error
        self._risen = self._risen or (risen and self.context.returns.warm)
        return risen or self._risen

    @property
    def _holds(self) -> bool:
        return self._success.holds and self._success.near_best

    def _take_in(self, row: Row) -> None:
        value, limits = row.metrics.get(TAG), self._limits
        if value is None:
            return
        self._rows.append(row)
        mean = row.metrics.get(RETURN, self._return)
        self._nans = self._nans + 1 if math.isnan(value) and mean != self._return else 0
        self._return = mean
        if math.isnan(value):
            return
        if self.context.returns.known and self.context.returns.span == 0.0 and self._learns(row):
            return
        if self._met_nothing(row, value):
            self._met_none += 1
            if self._met_none == limits.critical_updates:
                # What values were worth before is nothing to hold against them once there is a reward again.
                self._values.clear()
                self._poor = Hysteresis(limits.needed, limits.window)
                self._harmful = Hysteresis(1, limits.critical_updates)
            return
        self._met_none = 0
        self._values.append(value)
        loss = row.metrics.get("train/value_loss", math.nan)
        if value < 1.0 and 0.0 <= loss < math.inf:
            self._missed.append(loss)
            self._varied_by.append(loss / (1.0 - value))
        if self._varied is None:
            # Of a training that has gone on for long, units may be saturated.
            self._varied = row.update > AT_FIRST or self.context.settings.resumed is not None
        self._varied = self._varied or abs(value) > NO_DIFFERENCE
        self._good_until = row.update if value >= ONCE_GOOD else self._good_until
        typical = self._values.median
        self._best = max(self._best, typical) if len(self._values) >= FLAT else self._best
        self._poor.update(over=value < limits.warning, calm=value >= limits.leave)
        if len(self._values) == limits.critical_updates:
            self._worse_now = typical < limits.critical and not self._explain_together
            self._harmful.update(over=self._worse_now, calm=typical >= limits.critical / 2.0)

    @property
    def _explain_together(self) -> bool:
        """Whether values explain a good part of all that returns varied by in the last updates, each about its mean."""
        varied = sum(self._varied_by)
        return varied > 0.0 and 1.0 - sum(self._missed) / varied >= ONCE_GOOD

    def _met_nothing(self, row: Row, value: float) -> bool:
        """Whether targets hardly vary while a reward is still looked for: nothing was learned that could be lost."""
        variance = row.metrics.get("train/value_loss", math.nan) / (1.0 - value) if value < 1.0 else math.nan
        if not math.isfinite(variance):
            return False
        self._widest = max(self._widest, variance)
        hardly = variance < HARDLY_VARIES * self._widest
        return hardly and self._best < ONCE_GOOD and not self._success.gained

    def _learns(self, row: Row) -> bool:
        """Whether the value loss is well below where it began: a small network is there within an update or two."""
        loss = row.metrics.get("train/value_loss", math.nan)
        if len(self._first_losses) < FLAT:
            self._first_losses.append(loss)
        first = max((it for it in self._first_losses if math.isfinite(it)), default=math.nan)
        return not loss > LEARNED_SHARE * first

    def _could_explain(self) -> bool:
        """Whether a better value function would have had something to say."""
        returns = self.context.returns
        moved = returns.high - returns.low > REAL_GAIN * returns.error > 0.0
        worse = bool(self._values) and statistics.median(self._values) < -self._limits.leave
        same = bool(self._values) and statistics.median(map(abs, self._values)) < SAME_EVERYWHERE
        return moved or worse or same or self._best >= ONCE_GOOD

    def _sentence(self, severity: Severity) -> str:
        limits, critical = self._limits, severity == "critical"
        if self._useless.on and severity == "info":
            return f"{self._complaint()}; the return holds near its best all the same"
        if self._useless.on and not critical:
            blind = "every action seems to be worth the same, so that none can be learned to be better"
            return f"{self._complaint()}, and {blind if self._holds else self._success.complaint}"
        if self._nans:
            return f"explained variance has been nan for {self._nans} updates while the returns vary"
        typical = f"{statistics.median(self._values):.2g}"
        if critical:
            return (
                f"the value function is worse than a constant: explained variance {typical} (median of "
                f"{limits.critical_updates} updates), and {self._success.complaint}"
            )
        return (
            f"the value function does not explain the returns: explained variance below {limits.warning:g} in "
            f"{self._poor.count} of {self._poor.looks} updates, median {typical}, and the return does not rise"
        )

    def _complaint(self) -> str:
        """Why values cannot help."""
        if self.context.losses.values_are_untaught:
            known = self.context.settings.vf_coef is not None
            said = "ppo.vf_coef = 0" if known else "train/loss is that of the policy alone"
            return f"nothing teaches the value function: {said}"
        gamma, steps = self.context.settings.gamma, rounded(self._horizon.length)
        if gamma is None:
            return f"values seem to look no step ahead in episodes of {steps} steps, as with a gamma near 0"
        return f"values look {1.0 / (1.0 - gamma):.2g} steps ahead in episodes of {steps}: ppo.gamma = {gamma:g}"

    def _cause(self, row: Row) -> str:
        settings = self.context.settings
        if self._sees_nothing:
            return (
                "since the first update all states have had the same value, to the last digit: observations never vary"
            )
        if self._slow_rate(row) is not None:
            return f"{pressure_sentence(settings, learning_rate_of(row, settings))}: values learn next to nothing so"
        parts = [reward_scale_sentence(row, settings)]
        if self._is_tiny(row):
            parts.append(f"no mean return was as much as {rounded(TINY_SHARE)} of that: too little to be learned")
        if self._best >= ONCE_GOOD and not self._useless.on:
            good = f"values explained returns until about update {self._good_until} (median {self._best:.2g} at best)"
            parts.insert(0, f"{good}: look at what has changed since in what the environment pays and shows")
        if settings.gamma is not None and settings.gamma < 1.0:
            parts.append(f"gamma {settings.gamma:g} looks {1.0 / (1.0 - settings.gamma):,.0f} steps ahead")
        if settings.vf_coef is not None:
            parts.append(f"the value loss has weight {settings.vf_coef:g}")
        return "; ".join(part for part in parts if part) or "this log has neither the value loss nor the settings"

    def _slow_rate(self, row: Row) -> float | None:
        """A usual rate where a constant one is far too small for so few gradient steps; else None."""
        rate = learning_rate_of(row, self.context.settings)
        pressure = pressure_of(self.context.settings, rate)
        constant = isinstance(self.context.settings.learning_rate, float | int)
        if rate is None or pressure is None or not (constant and 0.0 < pressure < SLOW) or self._best >= ONCE_GOOD:
            return None
        return min(rate / pressure, LARGEST_RATE)

    @property
    def _sees_nothing(self) -> bool:
        """Whether values never differed between states: what is seen does not, as an untrained network tells any two
        states apart.
        """
        row = self._row
        asked = len(self._values) >= FLAT and not self._useless.on and row is not None and not self._is_tiny(row)
        return self._varied is False and asked

    def _is_tiny(self, row: Row) -> bool:
        """Whether rewards, which are not known to be normalised, are lost in the error that any network makes."""
        loss, returns = row.metrics.get("train/value_loss", math.nan), self.context.returns
        most = TINY_SHARE * math.sqrt(loss) if 0.0 < loss < SMALL_ERROR * SMALL_ERROR else 0.0
        return self.context.settings.normalize_reward is not True and 0.0 < max(-returns.low, returns.high) < most

    def _advice(self, row: Row) -> tuple[str, tuple[str, ...]]:
        settings = self.context.settings
        if self._useless.on:
            untaught = self.context.losses.values_are_untaught
            ahead = CAUTIOUS_GAMMA if self._compares else USUAL_GAMMA
            better = f"ppo.vf_coef={USUAL_VALUE_COEF:g}" if untaught else f"ppo.gamma={ahead:g}"
            advice = GIVE_WEIGHT if untaught else FURTHER_AHEAD
            return f"{advice}; {compared_first(settings)}" if self._compares else advice, (better,)
        if self._sees_nothing:
            return "look at what the environment shows the policy: print the observations of a few steps", ()
        if self._is_tiny(row):
            return "scale the rewards up or normalise them, in a new training", ()
        if self._best >= ONCE_GOOD and (self._success.gained or is_large(row, settings)):
            # At the same scale and horizon values were good; those of next to no rewards are so by chance.
            rest = f"if nothing did, {normalise_anew(settings)}" if is_large(row, settings) else NONE_KNOWN
            return f"{ENVIRONMENT_FIRST}; {rest}", ()
        if (rate := self._slow_rate(row)) is not None:
            return "raise the learning rate", (f"ppo.learning_rate={rate:.2g}",)
        if is_large(row, settings):
            # Not on the way: of 9 sick trainings that went on with normalised rewards 4 did better and 4 worse.
            return f"{normalise_anew(settings)}: values would have to learn another scale in this one", ()
        gamma, coef = settings.gamma, settings.vf_coef
        # Values look no further than an episode goes.
        length = row.metrics.get("rollout/ep_len_mean", math.inf)
        if gamma is not None and 1.0 - gamma < 1.0 / FAR_HORIZON and length > 1.0 / (1.0 - USUAL_GAMMA):
            return "lower gamma, so that values look less far ahead", ("ppo.gamma=0.99",)
        if coef is not None and coef < VALUE_COEF:
            return "give the value loss more weight", (f"ppo.vf_coef={VALUE_COEF:g}",)
        return "give the value function a larger network of its own", ()
