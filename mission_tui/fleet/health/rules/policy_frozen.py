"""`policy-frozen`: updates that no longer move the policy, although there is something left to learn.

Silent where that is meant: below 5 % of the initial learning rate if it decayed to there, and where an update is a
single gradient step, whose KL is 0 by definition (SB3 measures it before the step); a log that does not say how many
there are shows it by an entropy or a deviation that goes on changing. Only a gradual decay is a schedule:
a rate that is gone from one update to the next was lost. What it leaves of an update's KL, which goes with the square
of the rate, is no standstill.
Information where the task is known to be solved, and where a policy came to rest with its return at rest at its best.
One that comes to rest bit by bit because its rate decays, or that has hardly anything left to choose, is
warned of only while the return is below its best; one that stops from one update to the next was stopped, which is
critical unless the return had stopped rising before and is still there. One without a choice left that has lost most of
its best is warned of at once, in however short a training; so is one at its best if the environment itself calls that
next to nothing.
"""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

from mission_tui.fleet.events.findings import GRAVITY, POLICY_FROZEN, Severity
from mission_tui.fleet.health.doing_well import REAL_GAIN, Success
from mission_tui.fleet.health.phrases import (
    is_large,
    learning_rate_of,
    normalise_anew,
    pressure_of,
    pressure_sentence,
    reward_scale_sentence,
    rounded,
)
from mission_tui.fleet.health.returns import Quantiles
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.health.trust_region import (
    DECAYED,
    TARGET_RADII,
    RateCourse,
    StepScale,
    far_too_high,
    holds_all_back,
    is_tiny_target,
    radius_of,
    u_of,
)
from mission_tui.fleet.specs.sizes import REFERENCE_LEARNING_RATE
from mission_tui.fleet.specs.spec import Schedule
from mission_tui.fleet.windows import Numbers, Window

EVIDENCE = 12
DRIFT_LOOKS, SMOOTH = 24, 0.2
"""How many values of a series are looked at, and the von Neumann ratio (half the mean squared step over the variance)
below which they lie on a course: measured, 0.01 to 0.14 where one gradient step an update is taken, 0.8 to 1.1 of a
policy that stands still. Of values without a course it is 1, and below 0.2 next to never.
"""
ROUNDING = 1e-6
"""Of a series' size: more than rounding makes of one that does not change."""
LARGEST = 1e100
STD = "train/std"
DRIFTING = ("train/entropy_loss", STD)
"""What a policy that stands still leaves where it is, or scattered about that as the states that it meets."""
KL, CLIPPED = "train/approx_kl", "train/clip_fraction"
TAGS = (KL, CLIPPED, "train/learning_rate", "train/grad_norm", "policy/entropy_ratio", "rollout/ep_rew_mean")
EARLY_SHARE = 0.25
MOVING = 5
CUT_UPDATES = 5
"""How long a policy must not have moved that still learned, or that a learning rate of 0 has stopped."""
LEARNED_WITH, FEWEST_STEPS = 0.25, 8
"""An update moves the policy as ever if by more than this share of what it learned with, over so many updates."""
COLLAPSED = 0.05
LOST_SHARE = 0.5
"""Of the way from its low to its best, below which a policy without a choice left has lost what it had learned."""
AT_FIRST = 5
"""A standstill that began by this update has no checkpoint from before it."""
NO_GRADIENT = 1e-6
HUGE_ERROR, LARGE_ERROR = 1e3, 30.0
LEAST_MOVED, LEAST_RATE = 1e-7, 5e-5
"""A KL that is more than rounding; and a rate from which on steps that are not outweighed move a policy by more."""
SPENT = 0.2
"""Of the first rate, below which its fall may be why the KL is only rounding: KL goes with its square, and a rate of
half leaves a quarter.
"""
LOW_PRESSURE, NO_PRESSURE = 0.25, 0.03
"""Of the reference's update pressure: steps so small may be why a policy hardly moves, or why its KL is only rounding.
KL goes with its square, and is about 0.01 at the reference.
"""
LEAST_ENT_COEF = 0.01
LARGEST_RATE = 1e-2

Words = tuple[str, str, tuple[str, ...]]


class PolicyFrozen(Rule):
    """One attempt's rule; blank updates are passed over."""

    id = POLICY_FROZEN

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.policy_frozen
        self._rows = Window[Row](EVIDENCE)
        self._us = Numbers(limits.updates)
        self._rate = RateCourse(context.settings)
        self._scale = StepScale.shared(context)
        self._learned_with = Quantiles()
        self._success = Success(context)
        self._course = Success.shared(context)
        self._moving = Numbers(MOVING)
        self._stopped = self._unfinished = self._idles = self._has_gone_far = False
        self._entropy = 0.0
        self._std = 0.0
        # Of several epochs SB3 says the KL of the last, before which there were steps.
        self._moved = context.settings.gradient_steps is not None or (context.settings.n_epochs or 1) > 1
        self._learned = False
        # No state has a part in a deviation: any change of it is one of the policy.
        self._drifts = {tag: _Drift(ROUNDING if tag == STD else math.inf) for tag in DRIFTING}
        self._begin()

    def _begin(self) -> None:
        limits = self._limits
        self._still = Hysteresis(limits.updates, limits.updates)
        self._idle = Hysteresis(limits.updates, limits.updates)
        self._dead = Hysteresis(limits.critical_updates, limits.critical_updates)
        patience = min(CUT_UPDATES, limits.critical_updates)
        self._cut = Hysteresis(patience, patience)
        self._behind = Hysteresis(limits.critical_updates, limits.updates)
        self._cut_off = False
        self._since: int | None = None
        self._severity: Severity | None = None

    def judge(self, row: Row) -> Severity | None:
        """Critical for a KL of nothing, sooner where it came from one update to the next while there was something to
        learn; else a warning for small ones while the return is flat and below its best.
        """
        u = u_of(row, self.context.settings)
        self._scale.update(row)
        self._course.update(row)
        self._std = self._std or row.metrics.get("train/std", 0.0)
        self._entropy = self._entropy or max(0.0, -row.metrics.get("train/entropy_loss", 0.0))
        if u is None or self.context.settings.gradient_steps == 1:
            return self._severity
        self._rows.append(row)
        self._us.append(u)
        if self._rate.update(row, self._limits.least_rate_share):
            self._begin()
            return None
        self._count_row(row, u)
        # Only the episodes of a policy that may stand still say whether that policy has solved its task.
        if self._idle.count or self._severity is not None:
            self._success.update(row)
        before, self._severity = self._severity, self._verdict()
        # A policy that moves again is no worse for it, whatever it has to choose from now.
        if not self._idles and _gravity(self._severity) > _gravity(before):
            self._severity = before
        return self._severity

    def explain(self, severity: Severity) -> Explanation:
        """What holds the policy still, as far as its own numbers tell: target_kl, rate, entropy, gradients."""
        row, settings, limits = self._rows[-1], self.context.settings, self._limits
        dead, radius = self._is_frozen, radius_of(row, settings)
        window = self._dead_for if dead else limits.updates
        since = row.update if self._since is None else self._since
        words = holds_all_back(self._scale)
        words = words or cause_of_standstill(row, settings, self._rate.first, since=since, dead=dead)
        cause, advice, assignments = words
        if severity == "info":
            advice = f"nothing if the task is solved; otherwise {advice}"
        level = limits.u if self._still.on else limits.idle_u
        return Explanation(
            sentence=self._sentence(),
            cause=cause,
            advice=advice,
            advice_set=assignments,
            evidence=tuple(line.evidence(*TAGS) for line in self._rows),
            signal=KL,
            threshold=limits.critical_kl if dead else level * radius,
            window=window,
        )

    def _count_row(self, row: Row, u: float) -> None:
        limits, returns = self._limits, self.context.returns
        clipped = row.metrics.get(CLIPPED)
        dead = clipped == 0.0 and row.metrics[KL] < limits.critical_kl * self._planned
        idle = u < limits.u or (u < limits.idle_u and clipped == 0.0)
        self._idles = idle
        self._has_gone_far = self._has_gone_far or u >= limits.u
        self._moved = self._moved or not dead or learning_rate_of(row, self.context.settings) == 0.0
        if not dead:
            self._moving.append(u)
        elif not self._dead.count:
            self._stopped = bool(self._moving) and statistics.median(self._moving) >= limits.u
            self._unfinished = self._course.rises_now
        if not self._moved:
            for tag, drift in self._drifts.items():
                drift.update(row.metrics.get(tag, math.nan))
        if not (self._moved or self._learned):
            self._learned = bool(returns.improving) and self._course.gained
        if self._course.rises_now:
            self._learned_with.add(u)
        least = self._least_u()
        self._still.update(over=u < least, calm=u >= least)
        self._idle.update(over=idle, calm=not idle)
        self._dead.update(over=dead, calm=not dead)
        at_once = dead and (self._stopped or learning_rate_of(row, self.context.settings) == 0.0)
        self._cut.update(over=at_once, calm=not dead)
        behind = u < least and returns.warm and bool(returns.flat)
        if behind and returns.share_of_best is not None:
            behind = returns.share_of_best < limits.best_share and not self._course.near_best
        self._behind.update(over=behind, calm=not behind)
        if idle or dead or u < least:
            self._since = row.update if self._since is None else self._since
        elif not (self._still.on or self._idle.on or self._dead.on):
            self._since = None

    def _verdict(self) -> Severity | None:
        cut = self._cut
        self._cut_off = cut.on and (self._cut_off or (cut.count == cut.looks and self._is_cut_off))
        if self._cut_off and not self._dead.on:
            return "critical"
        dead = self._dead.on and not self._starts_slowly
        if not (dead or self._still.on or self._idle.on):
            return None
        if self._success.solved:
            return "info"
        if dead:
            if not (self._moved or self._still_stuck):
                return None
            if self._course.at_ceiling and (self._decided or not self._stopped):
                return "info"
            if self._decided and (self._lost or self._learned_nothing):
                return "warning"
            if self._decided or (self._rate.decays and not self._stopped):
                return "warning" if self._behind.on and not (self._rests or self._goes_on) else "info"
            return "warning" if self._stopped and not self._unfinished and self._course.near_best else "critical"
        behind = self._still.on and self._behind.on and not (self._rests or (self._decided and self._goes_on))
        return "warning" if behind else "info"

    @property
    def _is_cut_off(self) -> bool:
        """Whether it is plain before a whole window has passed that it was stopped, and has not come to rest."""
        if self._success.solved or self._course.at_ceiling or self._decided or self._rate.decays:
            return False
        return (self._moved or self._still_stuck) and (self._unfinished or not self._course.near_best)

    @property
    def _is_frozen(self) -> bool:
        """Whether its KL has been one of nothing for so long that it does not move at all."""
        return self._cut.on or (self._dead.on and not self._starts_slowly)

    @property
    def _starts_slowly(self) -> bool:
        """Whether it has never gone far, and moves by more than rounding: a new recurrent policy with small rollouts
        takes some twenty updates until its hidden state tells it anything to act by.
        """
        latest = self._rows[-self._limits.critical_updates :]
        return not self._has_gone_far and max(row.metrics[KL] for row in latest) > LEAST_MOVED

    @property
    def _dead_for(self) -> int:
        """Updates in a row that a frozen policy has not moved for, as far as they are counted."""
        return self._limits.critical_updates if self._dead.on else self._cut.count

    @property
    def _rests(self) -> bool:
        """Whether a schedule brings it to rest, as planned, with half of what it had gained at least."""
        return self._rate.decays and self._course.holds

    @property
    def _lost(self) -> bool:
        """Whether most of its best return is gone: of a policy that does not move, that is seen without a trend."""
        share = self.context.returns.share_of_best
        lost = self.context.returns.filled and share is not None and share < LOST_SHARE and not self._course.near_best
        return lost and not self._goes_on

    @property
    def _goes_on(self) -> bool:
        """Whether it was resumed with the return that it has: between the low and the best of a policy that began as
        decided as it is lies what a mean wanders by.
        """
        returns = self.context.returns
        if self.context.settings.resumed is None or returns.smooth is None or returns.best is None:
            return False
        return not returns.best - returns.smooth > REAL_GAIN * returns.smooth_error

    @property
    def _learned_nothing(self) -> bool:
        """Whether the environment calls the best so far next to nothing: standing still will not better it."""
        return self.context.returns.filled and bool(self._course.shortfall)

    def _least_u(self) -> float:
        """Below it a policy hardly moves; one that learned in small steps still moves as it did then, as far as its
        schedule lets it.
        """
        usual = self._learned_with.at(0.5) if self._learned_with.seen >= FEWEST_STEPS else None
        if usual is None:
            return self._limits.u * self._planned
        return min(self._limits.u, LEARNED_WITH * usual * self._planned)

    @property
    def _planned(self) -> float:
        """What a schedule leaves of the KL of an update, which goes with the square of the rate."""
        return self._rate.share_left**2

    @property
    def _still_stuck(self) -> bool:
        """A KL that was never anything else is believed only where nothing else shows that the policy moves: an outside
        log may hold single-step updates. Then its return rises by more than it wanders, or its entropy or its deviation
        is on a course.
        """
        seen = [drift for drift in self._drifts.values() if drift.count]
        asked = all(drift.count >= DRIFT_LOOKS for drift in seen)
        moves = self._learned or any(drift.seen for drift in seen)
        return self.context.returns.improving is not None and asked and not moves

    @property
    def _decided(self) -> bool:
        """Whether the policy has hardly anything left to choose: little entropy, or hardly any spread."""
        row = self._rows[-1]
        share = row.metrics.get("policy/entropy_ratio", row.metrics.get("policy/std_max_ratio"))
        if share is None and "train/std" in row.metrics:
            return row.metrics["train/std"] < COLLAPSED * self._std
        if share is None and "train/entropy_loss" in row.metrics:
            return -row.metrics["train/entropy_loss"] < COLLAPSED * self._entropy
        return share is not None and share < COLLAPSED

    def _sentence(self) -> str:
        limits, returns = self._limits, self.context.returns
        share = returns.share_of_best if not self._goes_on else None
        at = f"; the return stands at {share:.0%} of its best" if share is not None else ""
        if self._decided and self._learned_nothing:
            at += f", and {self._course.shortfall}" if at else f"; {self._course.shortfall}"
        if self._is_frozen:
            return (
                f"the policy is frozen: KL < {rounded(limits.critical_kl)} and nothing clipped in "
                f"{self._dead_for} updates{at}"
            )
        median = statistics.median(self._us)
        if self._still.on:
            return (
                f"the policy hardly moves: KL below {limits.u:.2g} x the safe KL in {limits.updates} updates, "
                f"{rounded(median)} x at the median{at}"
            )
        # A KL far below the limit counts whatever was clipped.
        nothing = "nothing clipped and " if all(row.metrics.get(CLIPPED) == 0.0 for row in self._rows) else ""
        return (
            f"the policy hardly moves: {nothing}KL below {limits.idle_u:.2g} x the safe KL in "
            f"{limits.updates} updates, {rounded(median)} x at the median{at}"
        )


class _Drift:
    """Whether a series is on a course, and does not only scatter; or has changed by more than `share` of its size. Once
    it was, it stays so.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._values = Numbers(DRIFT_LOOKS)
        self.seen = False

    @property
    def count(self) -> int:
        """How many of the values that are looked at are known."""
        return len(self._values)

    def update(self, value: float) -> None:
        """Take in one value; what is not finite is passed over."""
        if self.seen or not abs(value) < LARGEST:
            return
        self._values.append(value)
        spread, size = max(self._values) - min(self._values), max(map(abs, self._values))
        self.seen = spread > self._share * size
        if self.seen or self.count < DRIFT_LOOKS or spread <= ROUNDING * size:
            return
        steps = statistics.fmean((after - before) ** 2 for before, after in pairwise(self._values))
        self.seen = steps / 2.0 < SMOOTH * statistics.pvariance(self._values)


def _gravity(severity: Severity | None) -> int:
    return -1 if severity is None else GRAVITY[severity]


def cause_of_standstill(row: Row, settings: Settings, first_rate: float, *, since: int, dead: bool) -> Words:
    """Cause, advice and assignments of a standstill that began at update `since`; `dead`: the KL is only rounding."""
    rate = learning_rate_of(row, settings)
    words = (
        _stopped_early(row, settings)
        or _decayed(rate, first_rate, dead=dead)
        or _pressed_flat(row, settings)
        or _collapsed(row, settings)
        or _no_gradient(row, since)
        or _outweighed(row, settings, rate)
        or _too_small(settings, rate, dead=dead)
        or (_not_stepped(row, rate) if dead else None)
    )
    if words is None and since <= AT_FIRST:
        larger = "take larger steps: a higher learning rate, or more epochs"
        if not dead and settings.gradient_steps is None and settings.target_kl is None and settings.n_epochs == 1:
            # A log does not say its target_kl, and counts the epochs that begin.
            larger = f"raise target_kl if one ends the updates early, or {larger}"
        return pressure_sentence(settings, rate), larger, ()
    return words or (pressure_sentence(settings, rate), _back(since), ())


def _stopped_early(row: Row, settings: Settings) -> Words | None:
    done, epochs, target = row.metrics.get("train/n_epochs_done"), settings.n_epochs, settings.target_kl
    if target is None:
        return None
    if done is None and is_tiny_target(settings, row):
        cause = f"target_kl {rounded(target)} ends each update once it has moved the policy a little"
    elif done is not None and epochs is not None and done <= EARLY_SHARE * epochs:
        cause = f"target_kl {rounded(target)} ends each update after {rounded(done)} of {epochs} epochs"
    else:
        return None
    return cause, "let updates go further", (f"ppo.target_kl={TARGET_RADII * radius_of(row, settings):.2g}",)


def _decayed(rate: float | None, first_rate: float, *, dead: bool) -> Words | None:
    if rate is None or not 0.0 <= rate < (SPENT if dead else DECAYED) * first_rate:
        return None
    cause = f"the learning rate has fallen from {first_rate:.3g} to {rate:.3g}"
    return (
        cause,
        "go back to an earlier checkpoint and keep the learning rate up",
        (f"ppo.learning_rate={first_rate:.3g}",),
    )


def _pressed_flat(row: Row, settings: Settings) -> Words | None:
    """What is decided after a few updates at a rate that nobody learns with was decided by that, not by its entropy."""
    usual = far_too_high(settings, row)
    return None if usual is None else (pressure_sentence(settings, learning_rate_of(row, settings)), *usual)


def _collapsed(row: Row, settings: Settings) -> Words | None:
    ratio = row.metrics.get("policy/entropy_ratio")
    if ratio is None or not ratio < COLLAPSED:
        return None
    cause = f"the policy almost always chooses the same action: its entropy is {abs(ratio):.1%} of the maximum"
    advice = "do not resume from here; go back to a checkpoint with more entropy, and raise the entropy bonus"
    if settings.ent_coef is None:
        return cause, advice, ()
    return cause, advice, (f"ppo.ent_coef={max(LEAST_ENT_COEF, 2.0 * settings.ent_coef):.3g}",)


def _no_gradient(row: Row, since: int) -> Words | None:
    norm = row.metrics.get("train/grad_norm")
    if norm is None or not norm < NO_GRADIENT:
        return None
    cause = f"there is next to no gradient (norm {norm:.1g}): saturated or dead units, or advantages that do not differ"
    return cause, _back(since), ()


def _outweighed(row: Row, settings: Settings, rate: float | None) -> Words | None:
    """What is left of a clipped gradient for the policy where values miss by thousands is below Adam's 1e-5."""
    loss, kl = row.metrics.get("train/value_loss", math.nan), row.metrics.get(KL, 0.0)
    # An optimizer that does not hold the policy leaves a KL of nothing but rounding.
    steps = kl >= LEAST_MOVED and (rate is None or rate >= LEAST_RATE)
    least = LARGE_ERROR if steps else HUGE_ERROR
    if rate == 0.0 or not (least * least <= loss < math.inf and is_large(row, settings)):
        return None
    missed = reward_scale_sentence(row, settings)
    cause = f"{missed}; the gradient is clipped as a whole, and that leaves the policy next to nothing of it"
    return cause, normalise_anew(settings), ()


def _not_stepped(row: Row, rate: float | None) -> Words | None:
    norm = row.metrics.get("train/grad_norm")
    if rate == 0.0:
        return "the learning rate is 0", "set a learning rate", (f"ppo.learning_rate={REFERENCE_LEARNING_RATE:g}",)
    if norm is None:
        return None
    cause = f"gradients of norm {rounded(norm)} do not change the policy: the optimizer does not update it"
    return cause, "stop, and check that the optimizer holds the parameters of the policy that acts", ()


def _too_small(settings: Settings, rate: float | None, *, dead: bool) -> Words | None:
    pressure, low = pressure_of(settings, rate), NO_PRESSURE if dead else LOW_PRESSURE
    if rate is None or pressure is None or not 0.0 < pressure < low or isinstance(settings.learning_rate, Schedule):
        return None
    # Who stands still as with no rate at all gets what cured that; many small steps would have the pressure sooner.
    better = min(max(rate / pressure, REFERENCE_LEARNING_RATE if dead else 0.0), LARGEST_RATE)
    if better <= rate:
        return None
    return pressure_sentence(settings, rate), "raise the learning rate", (f"ppo.learning_rate={better:.2g}",)


def _back(since: int) -> str:
    return f"do not resume from here; go back to a checkpoint from before update {since:,}"
