"""`drawdown`: a run that loses what it had gained.

The return is smoothed, and the share of the gain (peak - base) that is lost again is what is judged; base is the lowest
smoothed return before the peak. Gains that noise alone could make are passed over (health guide, section 3): against
what the mean return changes by from one update to the next, and against its standard error, because a mean over 100
episodes wanders far in small steps. Half of such a gain is enough to fall from by a whole one. The mean of the first
few episodes is no peak to fall from.

Costs that came down from a terrible start are a gain of which half is never lost again. So a fifth of it is told of,
too, where it is lost at once and takes back more than half of the time that it took: far beyond what the return moved
by before, and values are surprised, as they are where the environment has changed. A policy that sways, as solved ones
of long trainings do, falls in more than 32 updates, or by less.

A fall far beyond all noise is told of after half as many updates, and though hardly anything had been gained if it ends
as far below all that was seen before. So is half of a gain that goes within a dozen updates, far beyond what the mean
return changed by just before.

Where episodes are long, and that mean is of the last fifty updates, the newest 20 are looked at as well: of them three
quarters of the gain must be lost, since a policy may fail a few times and go on.

Where all environments end their episodes at once and many updates apart, each burst is looked at by itself as soon as
it has ended: nothing new is to be learned in the updates up to the next. It has to lie below the best one by more than
chance; a log without single episodes does not say how far that is, so values have to be surprised there, or the next
burst as poor.
"""

from __future__ import annotations

import math
import statistics
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import spoken
from mission_tui.fleet.health.doing_well import REAL_GAIN
from mission_tui.fleet.health.phrases import (
    ENVIRONMENT_FIRST,
    NONE_KNOWN,
    compared_first,
    halved_learning_rate,
    learning_rate_of,
    lost_share,
    pressure_sentence,
    rounded,
)
from mission_tui.fleet.health.returns import SURE_ERRORS, Burst, Returns
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.health.trust_region import StepScale, smaller_update_advice
from mission_tui.fleet.specs.thresholds import DrawdownLimits
from mission_tui.fleet.windows import Numbers, Sorted, Window

TAGS = ("rollout/ep_rew_mean", "rollout/ep_len_mean", "train/approx_kl", "train/learning_rate")
EVIDENCE = 12
NEWEST_LOST = 0.75
KL_TARGET = "ppo.target_kl="
STEPS_SEEN = 50
NO_STEP_SEEN = 5e-4
"""The u of rounding: at clip range 0.2 a KL of 1e-5."""
FEWEST, OF_ALL = 10, 2.0
"""Returns from which the noise before a fall is known; and how many times all episodes of the mean must have been
replaced while it lasts, so that no single disaster makes it.
"""

SHEER_UPDATES, SHEER_LOST, SHEER_SIGMAS = 5, 0.75, 20.0
STEPS_DOWN, OF_STEPS = 4, 8
"""A fall that is so much of the gain, and so many times the noise from before it, takes half of the patience: unless a
few disasters make it, which come down in one step or two and stay among the episodes of the mean.
"""
CALM_STEPS, QUICK_UPDATES, WIDE_SHARE = 16, 12, 0.8
QUICK_DOWN, OF_FALL = 3, 0.1
"""So does half of the gain, where that is most of the range, if it goes within so many updates, in so many steps of a
tenth of it or more, by 20 times the deviation of the steps before: noise is of a hundred, and those of learning are
among them. Seen in none of 364 trainings that were left alone or changed in a benign way; for three updates, in one.
"""
TIME_LOST, LEAST_LOST, TIMES_SPREAD = 0.5, 0.2, 4.0
"""Of the updates up to where it fell from, of the gain, and of what the 16 returns before that lie apart."""
LEAST_SHARE = 1e-2
"""Of the peak: a smoothed return that once was a little above nothing comes down to nothing for ever."""
LATELY, AT_ONCE, LEVELS = 8, 32, 128
SURPRISED_TIMES, SURPRISED_BY = 5.0, 0.3
"""By how much the value loss multiplies, or else the explained variance falls, from before a fall to after it. All
together were seen in none of 365 healthy trainings; without *at once*, in 9 of 40 long ones.
"""
SHOCK_UPDATES, MOST_SILENT, SELDOM = 5, 128, 0.9
"""How long losses have to be above nine tenths of those of as many updates as lie between two bursts: single ones are
often, where all environments start anew at once.
"""
EXPLAINED, VALUE_LOSS = "train/explained_variance", "train/value_loss"


class _Fall(Struct, frozen=True):
    """From which peak at which update, to where, and the share of the gain since `base` that is lost; `hidden` is
    whether the newest episodes alone show it, and the curve of the mean does not. `back_at` is the update at which the
    return first was where it is now, 0 where that does not matter, and `of` of how many episodes a burst is.
    """

    peak: float
    peak_update: int
    base: float
    now: float
    share_lost: float
    hidden: bool = False
    back_at: int = 0
    of: int = 0


class Drawdown(Rule):
    """One attempt's rule; updates that said no return are passed over."""

    id = "drawdown"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.drawdown
        self._lost = Hysteresis(limits.warning_updates, limits.warning_updates)
        self._nearly_all = Hysteresis(limits.critical_updates, limits.critical_updates)
        self._smooth = self._peak = self._base = self._lowest = math.nan
        self._peak_update = 0
        self._relapse = _Relapse()
        self._relapsed = Hysteresis(limits.warning_updates, limits.warning_updates)
        self._bursts = _Bursts(limits)
        self._shock = Shock.shared(context)
        self._usual: tuple[float, float] | None = None
        patience = min(SHEER_UPDATES, limits.warning_updates)
        self._sheer = Hysteresis(patience, patience)
        self._downs = Window[bool](OF_STEPS)
        self._means = Numbers(1 + CALM_STEPS + QUICK_UPDATES)
        self._latest = math.nan
        self._steps = Steps.shared(context)
        self._evidence = Window[tuple[Row, float]](EVIDENCE - 1)
        self._judged: Row | None = None
        self._row: Row | None = None

    def judge(self, row: Row) -> Severity | None:
        """Warning for more than half of the gain lost for 10 updates, critical for more than 80 % for 20. Warning too
        for 10 updates of a return that has fallen at once to where it was before half of the time, and for 5 of a sheer
        fall.

        Other rules ask it of the same row.
        """
        if row is self._judged:
            return self.severity
        self._judged = row
        self._steps.update(row)
        self._relapse.update(row)
        self._shock.update(row)
        if self.context.returns.burst or (self._bursts.fall is not None and self.context.returns.bursts.newest is None):
            self._bursts.ended(self.context.returns, surprised=self._shock.before)
        value = row.metrics.get("rollout/ep_rew_mean")
        if value is None or not math.isfinite(value) or not self.context.returns.filled:
            return self.severity
        self._follow(value, row)
        limits, lost, warm = self._limits, self._share_lost(), self.context.returns.warm
        # What went before the first word may be said is still gone then, but no longer falls.
        back = self._peak - value < limits.warning * (self._peak - self._base)
        sheer = self._is_sheer(value) or self._is_quick(value)
        self._sheer.update(over=sheer, calm=lost < limits.leave if warm else back)
        if warm:
            if lost > limits.warning and not self._gain_is_real():
                lost = 0.0
            if (lately := self.context.returns.newest.share_lost) >= NEWEST_LOST:
                lost = max(lost, lately)
            calm = lost < limits.leave
            self._lost.update(over=lost > limits.warning, calm=calm)
            self._nearly_all.update(over=lost > limits.critical, calm=calm)
            now, gain = max(self._smooth, value), self._peak - self._base
            far = self._relapse.is_far(now, gain, self._peak) and self._gain_is_real()
            self._relapsed.update(over=far, calm=lost < limits.leave)
        return self.severity

    @property
    def severity(self) -> Severity | None:
        """What the last return led to."""
        if self._nearly_all.on or self._bursts.critical:
            return "critical"
        sheer = self._sheer.on and self.context.returns.warm
        return "warning" if self._lost.on or sheer or self._relapsed.on or self._bursts.fall is not None else None

    @property
    def lost_half(self) -> bool:
        """Whether at least half of the gain is lost."""
        return self._lost.on or self._nearly_all.on or self._bursts.critical

    def explain(self, severity: Severity) -> Explanation:
        """The peak, what is left of it, and how large the steps were that led away from it."""
        limits, row = self._limits, self._row
        critical = severity == "critical"
        fall = self._fall()
        level = fall.peak - (limits.critical if critical else limits.warning) * (fall.peak - fall.base)
        cause, remedy, assignments = self._steps.blame()
        # Of nine trainings that took one after such a fall two did better and three worse; a trial saves these.
        compares = any(it.startswith(KL_TARGET) for it in assignments)
        remedy = f"{remedy}; {compared_first(self.context.settings)}" if compares else remedy
        shown = [*self._evidence, *([(row, self._smooth)] if row else [])]
        where = "less than in all since" if fall.of else "where it was at"
        back = f", {where} update {fall.back_at:,}" if fall.back_at else ""
        newest = f"the return of the newest {fall.of or self.context.returns.newest.COUNT} episodes"
        return Explanation(
            sentence=(
                f"{newest if fall.hidden else 'return'} fell from {_short(fall.peak):g} at update "
                f"{fall.peak_update:,} to {_short(fall.now):g}{back}: {lost_share(fall.share_lost)} of what was gained "
                f"since {_short(fall.base):g} is lost{', and the mean with older ones hides it' if fall.hidden else ''}"
            ),
            cause=cause,
            advice=f"go back to the checkpoint from before update {fall.peak_update:,} and {remedy}",
            advice_set=assignments,
            evidence=tuple(it.evidence(*TAGS) | {"smoothed": spoken(_short(smooth))} for it, smooth in shown),
            signal="rollout/ep_rew_mean",
            threshold=level if math.isfinite(level) and not (fall.hidden or fall.back_at) else None,
            window=limits.critical_updates if critical else limits.warning_updates,
            compare_first=compares,
        )

    def _fall(self) -> _Fall:
        """That of the mean, or that of the newest episodes while the mean does not show as much."""
        newest, lost = self.context.returns.newest, self._share_lost()
        if self._bursts.fall is not None and not (self._lost.on or self._nearly_all.on):
            return self._bursts.fall
        if newest.share_lost >= NEWEST_LOST and not (lost > self._limits.warning and self._gain_is_real()):
            return _Fall(newest.peak, newest.peak_update, newest.base, newest.mean, newest.share_lost, hidden=True)
        back_at = 0 if self.lost_half or self._sheer.on else self._relapse.first_at(self._smooth)
        return _Fall(self._peak, self._peak_update, self._base, self._smooth, lost, back_at=back_at)

    def _follow(self, value: float, row: Row) -> None:
        self._row = row
        if self._usual is not None:
            self._downs.append(value < self._latest - self._usual[0])
        self._latest = value
        self._means.append(value)
        if math.isnan(self._smooth):
            self._smooth = self._peak = self._base = self._lowest = value
            self._peak_update = row.update
        self._smooth += self._limits.ewma * (value - self._smooth)
        if self._smooth < self._lowest:
            self._lowest = self._smooth
        self._relapse.returned(value, self._smooth, row.update)
        if self._smooth >= self._peak:
            self._peak, self._base, self._peak_update = self._smooth, self._lowest, row.update
            returns = self.context.returns
            self._usual = (returns.noise, returns.smooth_error) if returns.known >= FEWEST else None
            self._evidence.clear()
        elif (row.update - self._peak_update) % max(1, self._limits.warning_updates // 2) == 0:
            self._evidence.append((row, self._smooth))

    def _is_quick(self, value: float) -> bool:
        """Whether half of the gain went within a few updates, far beyond what the steps before them differed by."""
        gain, means = self._peak - self._base, self._means
        half = self._limits.warning * gain
        if not self._peak - value > half or len(means) < CALM_STEPS + 2:
            return False
        first = max(CALM_STEPS, len(means) - 1 - QUICK_UPDATES)
        top = max(range(first, len(means) - 1), key=means.__getitem__)
        steps = [after - before for before, after in pairwise(means)]
        calm = steps[top - CALM_STEPS : top]
        usual = sum(calm) / CALM_STEPS
        deviation = math.hypot(*[step - usual for step in calm]) / math.sqrt(CALM_STEPS)
        fall = means[top] - value
        far = fall > max(SHEER_SIGMAS * deviation, half)
        wide = gain >= WIDE_SHARE * self.context.returns.span
        return far and wide and sum([-step > OF_FALL * fall for step in steps[top:]]) >= QUICK_DOWN

    def _is_sheer(self, value: float) -> bool:
        """Whether nearly all of a real gain went within a few updates, as nothing that was seen before it does."""
        limits, gain, fall = self._limits, self._peak - self._base, self._peak - value
        if self._usual is None or not self._share_lost() > limits.warning or not fall > SHEER_LOST * gain:
            return False
        renewed = OF_ALL * self.context.returns.updates_of_window <= SHEER_UPDATES
        of_many = renewed or sum(self._downs) >= STEPS_DOWN
        far = SHEER_SIGMAS * self._usual[0]
        # What lies twice as many standard errors below all that was seen is lost, however little had been gained.
        below = self._base - value > 2.0 * SHEER_SIGMAS * max(self._usual)
        return of_many and fall > far and (below or self._gain_is_real(shared=True))

    def _share_lost(self) -> float:
        gain = self._peak - self._base
        return (self._peak - self._smooth) / gain if gain > 0.0 else 0.0

    def _gain_is_real(self, *, shared: bool = False) -> bool:
        """`shared` is whether many episodes are known to have made the fall."""
        limits, returns = self._limits, self.context.returns
        gain, fall = self._peak - self._base, self._peak - self._smooth
        noise, error = returns.noise, returns.smooth_error
        stays = returns.latest is not None and self._peak - returns.latest > limits.warning * gain
        shared = shared or OF_ALL * returns.updates_of_window <= limits.warning_updates
        if stays and shared and self._usual is not None:
            # A fall that all episodes share, and that stays, is none of the noise that it is measured by.
            noise, error = min(noise, self._usual[0]), min(error, self._usual[1])
        sigmas = max(limits.least_gain_sigmas * noise, REAL_GAIN * error)
        least = max(sigmas, limits.least_gain_share * returns.span)
        return gain >= least or (gain >= least / 2.0 and fall >= least)


class _Bursts:
    """Whether the newest burst of episodes has lost what the best one had gained."""

    def __init__(self, limits: DrawdownLimits) -> None:
        self._limits = limits
        self._below = 0
        self.fall: _Fall | None = None
        self.critical = False

    def ended(self, returns: Returns, *, surprised: bool) -> None:
        """Take in the burst that has just ended, and whether values were surprised meanwhile."""
        limits, newest, before = self._limits, returns.bursts.newest, returns.bursts.before
        fall = None if newest is None else burst_fall(newest, before)
        if newest is None or fall is None:
            self._below, self.fall, self.critical = 0, None, False
            return
        low = fall.share_lost > limits.warning
        self._below = self._below + 1 if low else 0
        back = surprised and not low and fall.share_lost > limits.least_gain_share and _back_at(newest, before)
        lost = low or back
        sure = self._below > 1 or surprised
        if math.isfinite(newest.error):
            best = max(before, key=lambda it: it.mean)
            sure = best.mean - newest.mean > SURE_ERRORS * math.hypot(best.error, newest.error)
        opens = lost and sure and returns.updates >= returns.warm_up
        if opens or (self.fall is not None and fall.share_lost >= limits.leave):
            self.fall = replace(fall, back_at=back or 0)
            self.critical = self.critical or (self._below > 1 and fall.share_lost > limits.critical)
        else:
            self.fall, self.critical = None, False


def burst_fall(newest: Burst, before: Sequence[Burst]) -> _Fall | None:
    """From the best burst to the newest; None where nothing had been gained."""
    best = max(range(len(before)), key=lambda place: before[place].mean, default=0)
    if best == 0:
        return None
    peak, base = before[best], min(it.mean for it in before[:best])
    share = (peak.mean - newest.mean) / (peak.mean - base)
    return _Fall(peak.mean, peak.update, base, newest.mean, share, hidden=True, of=newest.episodes)


def _back_at(newest: Burst, before: Sequence[Burst]) -> int | None:
    """The update up to which the return was as low, if the best burst was more than twice as late."""
    best = max(range(len(before)), key=lambda place: before[place].mean)
    as_low = [it.update for it in before[:best] if it.mean <= newest.mean]
    at = as_low[-1] if as_low else before[0].update
    return at if before[best].update - at > TIME_LOST * before[best].update else None


class _Before(Struct, frozen=True):
    """The smoothed return as of an update, how far the returns up to it lie apart, and what values missed by."""

    level: float
    update: int
    spread: float
    loss: float
    explained: float


class _Relapse:
    """Whether the return has fallen at once to where it was long ago, and values are surprised by that."""

    def __init__(self) -> None:
        self._levels = array("d")
        self._updates: list[int] = []
        # Lists, as all of each is gone through in every update.
        self._returns = Window[float](2 * LATELY)
        self._losses, self._explained = Sorted(LATELY), Sorted(LATELY)
        self._lately = Window[_Before](AT_ONCE)

    def update(self, row: Row) -> None:
        """Take in what values miss by."""
        if math.isfinite(loss := row.metrics.get(VALUE_LOSS, math.nan)):
            self._losses.append(loss)
        if math.isfinite(explained := row.metrics.get(EXPLAINED, math.nan)):
            self._explained.append(explained)

    def returned(self, value: float, level: float, update: int) -> None:
        """Take in a mean return, and the smoothed one."""
        self._returns.append(value)
        full = len(self._returns) == 2 * LATELY
        spread = max(self._returns) - min(self._returns) if full else math.inf
        self._lately.append(_Before(level, update, spread, _median(self._losses), _median(self._explained)))
        if not self._levels or level > self._levels[-1]:
            if len(self._levels) >= LEVELS:
                del self._levels[1::2], self._updates[1::2]
            self._levels.append(level)
            self._updates.append(update)

    @property
    def before(self) -> _Before:
        """The best of the last 32 updates."""
        return max(self._lately, key=lambda it: it.level)

    def first_at(self, level: float) -> int:
        """The update at which the smoothed return was first that high."""
        return self._updates[min(bisect_left(self._levels, level), len(self._updates) - 1)]

    def is_far(self, now: float, gain: float, peak: float) -> bool:
        """Whether so much of what was gained up to `peak` is undone that neither chance nor an ordinary dip does it."""
        if not peak - now > LEAST_LOST * gain:
            return False  # no level was above the peak
        before = self.before
        least = max(LEAST_LOST * gain, TIMES_SPREAD * before.spread, LEAST_SHARE * abs(peak))
        if not before.level - now > least:
            return False
        if not before.update - self.first_at(now) > TIME_LOST * before.update:
            return False
        surprised = _median(self._losses) > SURPRISED_TIMES * before.loss
        return surprised or _median(self._explained) < before.explained - SURPRISED_BY


class Shock:
    """Whether values miss by far more than they did in as many updates as lie between two bursts of episodes.

    Of what is lost in between no return tells. A policy that moves as far as it did before meets nothing in so many
    updates on end that its values do not know: it is the environment that has changed, or the policy was.
    """

    def __init__(self, context: RuleContext) -> None:
        self._returns = context.returns
        self._losses = Numbers(MOST_SILENT)
        self._over: list[float] = []
        self.usual, self.level, self.loss = 0.0, math.inf, 0.0
        self.on = self.before = False
        self._row: Row | None = None

    @classmethod
    def shared(cls, context: RuleContext) -> Shock:
        """The one of all rules of `context`."""
        return context.shared(cls, lambda: cls(context))

    def update(self, row: Row) -> None:
        """Take in one update. The same row again is passed over; `before` is `on` as of the last burst."""
        bursts = self._returns.bursts
        if row is self._row or not bursts.begun:
            return
        self._row = row
        if self._returns.burst:
            self.before, self.on = self.on, False
            if self.before:
                # The burst has said what that was about.
                self._losses_are_usual()
        self.loss = loss = row.metrics.get(VALUE_LOSS, math.nan)
        if not math.isfinite(loss):
            return
        if 0 < bursts.gap <= len(self._losses):
            self._compare(loss, bursts.gap)
        if not self._over:
            self._losses.append(loss)

    def _compare(self, loss: float, gap: int) -> None:
        """Losses that are too large are no part of what is usual, unless the next ones are not."""
        if not self._over:
            newest = sorted(self._losses[-gap:])
            self.usual = newest[gap // 2]
            self.level = max(newest[int(SELDOM * gap)], SURPRISED_TIMES * self.usual)
        if loss > self.level:
            if len(self._over) < SHOCK_UPDATES:
                self._over.append(loss)
            self.on = self.on or len(self._over) >= SHOCK_UPDATES
        else:
            self._losses_are_usual()

    def _losses_are_usual(self) -> None:
        for high in self._over:
            self._losses.append(high)
        del self._over[:]


def _median(values: Sorted) -> float:
    """NaN, which no comparison passes, of none."""
    return values.median if values else math.nan


class Steps:
    """How far recent updates moved the policy: the first suspect when a return falls or swings."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._us = Numbers(STEPS_SEEN)
        self._scale = StepScale.shared(context)
        self._row: Row | None = None

    @classmethod
    def shared(cls, context: RuleContext) -> Steps:
        """The one of all rules of `context`."""
        return context.shared(cls, lambda: cls(context))

    def update(self, row: Row) -> None:
        """Take in one update. The same row again is passed over."""
        if row is self._row:
            return
        self._row = row
        self._scale.update(row)
        u = self._scale.u(row)
        if u is not None and math.isfinite(u):
            self._us.append(u)

    def blame(self) -> tuple[str, str, tuple[str, ...]]:
        """The cause in this run's own numbers; the remedy; the assignments that carry it out."""
        settings, row = self._context.settings, self._row
        limits = self._context.limits.kl_persistent
        pressure = pressure_sentence(settings, learning_rate_of(row, settings))
        if not self._us or row is None:
            return pressure, "halve the learning rate", halved_learning_rate(settings, row)
        steps = settings.gradient_steps if settings.gradient_steps is not None else settings.n_epochs or 1
        if max(self._us) < NO_STEP_SEEN and steps == 1:
            # SB3 measures before a step, so that of a single one an update nothing is seen.
            cause = f"the KL does not show how far a single gradient step an update goes; {pressure}"
            remedy = "halve the learning rate, unless the environment or its rewards have changed"
            return cause, remedy, halved_learning_rate(settings, row)
        median, largest = statistics.median(self._us), max(self._us)
        wide = median > limits.warning_leave or largest > self._context.limits.kl_spike.u
        kind = "" if wide else ", which is not much"
        cause = (
            f"the last {len(self._us)} updates changed the policy by {rounded(median)} x the safe KL at the median and "
            f"by {rounded(largest)} x at most{kind}; {pressure}"
        )
        if wide:
            remedy, assignments = smaller_update_advice(settings, row)
            return cause, f"{remedy}, unless the environment or its rewards have changed", assignments
        # Half the rate was followed where rewards had changed their sign, and cured nothing (docs/health/advice.md).
        return cause, f"{ENVIRONMENT_FIRST}: {NONE_KNOWN}", ()


def _short(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")
