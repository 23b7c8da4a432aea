"""`value-loss`: a value loss far above what this run is used to.

A first win can multiply it, and it did in 10 of 40 healthy runs (health guide, section 2): so it is a warning only
while the return falls, and else information, once an attempt. Once values are learned to the last digits a loss may
multiply and still be nothing: it has to be more than a hundredth of what it was at first. NaN belongs to the rule
`nan`. Of algorithms that learn the values of actions it is the critic's loss, under its own tag.

Where all environments end their episodes at once and many updates apart, nobody knows for as long whether the return
falls. So it is a warning there, too, for five updates on end of a loss far above all since the burst before, up to the
next burst: if that has lost nothing, the values had only something new to learn.

A loss that is gone from one update to the next is as much of a warning, though the return rises: no learning takes nine
tenths of it away at once, after 16 updates in which it took nothing near that. Rewards have become smaller, as where
they are cut to their sign, and what is best by them may be another policy.

So are values that explained returns in update after update, and from one to the next are worse than a constant and miss
by more than in all of those, if the return moves at once as well, up or down: where rewards have changed their sign
values foretell the opposite, and the return that is then received may go on as well as ever. A policy that has suddenly
become better is underrated by its values, not contradicted. Where only one of the two is there, and lasts, the return
has to fall at once, and far.
"""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.health.phrases import (
    ENVIRONMENT_FIRST,
    NONE_KNOWN,
    is_large,
    normalise_anew,
    reward_scale_sentence,
    rounded,
)
from mission_tui.fleet.health.returns import Quantiles, Returns
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.health.rules.drawdown import EXPLAINED, SHOCK_UPDATES, Shock, Steps, burst_fall
from mission_tui.fleet.health.settings import critic_loss
from mission_tui.fleet.windows import Numbers, Window

TAG = "train/value_loss"
TAGS = ("train/explained_variance", "rollout/ep_rew_mean")
CALLED = {TAG: "value loss", "train/critic_loss": "critic loss"}
EVIDENCE = 8
FIRST, LEARNED_SHARE = 5, 0.01
"""Of the largest of the first losses, below which values are right for all that the policy needs. Measured: true
warnings lie at 0.03 and more of it, those of values that were nowhere wrong at 5e-4 and less.
"""


GONE_SHARE, GONE_UPDATES, KNOWN = 0.1, 5, 16
"""What a loss falls to from the least of so many updates, and for how many. Measured beside it: with 0.15 the loss of
one healthy training falls so, of 370; where rewards were cut to their sign it fell to 0.1 or less in seven of eight.
"""
CONTRADICTED, LESS_BY, LOSS_TIMES = 2, 0.1, 2.0
"""For how many updates the loss has to be above all of `KNOWN`, and how many times their median; and by how much less
than in all but one of those values explain in the first of them.
"""
MOVED_WITHIN, MOVED_SIGMAS, MOVED_SHARE = 6, 10.0, 0.05
FALLEN_SIGMAS, FALLEN_SHARE, SOLVED_SHARE = 12.0, 0.2, 1e-3
"""In how many updates the mean return has to move, by how many times the deviation of its last `KNOWN` steps, and by
what share of its range; how far it has to fall where explained variance alone or the loss alone says so; and of the
largest of the first losses, below which a loss is that of a solved task. Chosen on 364 trainings that were left alone
or changed in a benign way, so that none of them is spoken of, and on those whose rewards changed their sign.
"""
STILL_MISSED = 0.03
"""Of the largest of the first losses, below which what a loss falls from may be that of a task that is solved."""


class ValueLoss(Rule):
    """One attempt's rule; updates without a value loss change nothing."""

    id = "value-loss"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.value_loss
        self._usual = Quantiles()
        self._rows = Window[Row](EVIDENCE)
        self._high = Hysteresis(limits.updates, limits.updates)
        self._median: float | None = None
        self._seen, self._first, self._level = 0, 0.0, math.inf
        self._steps = Steps.shared(context)
        self._shock = Shock.shared(context)
        self._collapse = _Collapse()
        self._surprise = _Surprise()
        self._tag = TAG
        self._informed = self._informing = self._falling = self._unknown = False

    def judge(self, row: Row) -> Severity | None:
        """Above 10 x the run's own median in 5 updates: a warning while the return falls, else information, once."""
        tag, limits = critic_loss(row.metrics), self._limits
        self._steps.update(row)
        self._shock.update(row)
        if tag is not None and 0.0 <= (loss := row.metrics[tag]) < math.inf:
            self._tag = tag
            self._rows.append(row)
            if self._seen < FIRST:
                self._seen, self._first = self._seen + 1, max(self._first, loss)
            self._collapse.update(loss, STILL_MISSED * self._first)
            self._surprise.update(row, loss, self.context.returns, self._first)
            usual = self._usual.at(0.5)
            if usual is not None and self.context.returns.warm:
                least = LEARNED_SHARE * self._first
                self._level = max(limits.times_median * usual, least)
                calm = loss < max(limits.leave * usual, least / 2.0)
                self._high.update(over=loss > self._level, calm=calm)
            if not self._high.on:
                self._usual.add(loss)
                self._median = usual
        self._unknown = (self._shock.on or self._unknown) and self._is_unknown()
        if self._unknown or self._collapse.on or self._surprise.on:
            return "warning"
        if not self._high.on:
            self._informed, self._falling = self._informed or self._informing, False
            self._informing = False
            return None
        self._falling = self._falling or (self._high.count >= limits.updates and self._falls())
        if self._falling:
            return "warning"
        self._informing = not self._informed
        return "info" if self._informing else None

    def _is_unknown(self) -> bool:
        """Whether values are surprised by what no return shows yet, or by what the newest burst has lost since."""
        returns, shock = self.context.returns, self._shock
        bursts = returns.bursts
        if bursts.newest is None or returns.updates < returns.warm_up:
            return False
        if returns.burst:
            fall = burst_fall(bursts.newest, bursts.before)
            return shock.before and fall is not None and fall.share_lost > self.context.limits.drawdown.least_gain_share
        # Where nothing was gained yet a loss multiplies with the first success.
        return self._unknown or bursts.has_gained

    def _falls(self) -> bool:
        """Whether the return has come down from its best by more than noise, and goes on falling."""
        returns = self.context.returns
        if returns.smooth is None or returns.best is None:
            return False
        # The smoothed return lags: one that is back already does not fall.
        fallen = returns.best - max(returns.smooth, returns.latest or returns.smooth)
        return returns.improving is False and fallen > max(self._limits.fall_share * returns.span, returns.noise)

    def explain(self, severity: Severity) -> Explanation:
        """How many times the usual; the cause is the scale of rewards when it is known."""
        if self._collapse.on:
            return self._explain_collapse()
        if self._unknown:
            return self._explain_unknown()
        if self._surprise.on:
            return self._explain_surprise()
        row, settings, limits = self._rows[-1], self.context.settings, self._limits
        usual = self._median or 0.0
        times = row.metrics[self._tag] / usual if usual > 0.0 else math.inf
        worse, what = severity == "warning", CALLED.get(self._tag, "loss of the values")
        _, how, fix = self._steps.blame()
        if is_large(row, settings):
            # On the way it was followed in 12 trainings: 4 did better, 4 worse (docs/health/advice.md).
            how, fix = f"{ENVIRONMENT_FIRST}; if nothing did, {normalise_anew(settings)}", ()
        return Explanation(
            sentence=f"{what} is {rounded(times)} x its median of {rounded(usual)}, for {limits.updates} updates"
            + (
                ", and the return falls"
                if worse
                else "; the return does not fall, so the value function may only be learning something new"
            ),
            cause=reward_scale_sentence(row, settings)
            or "the returns differ from those that the values were learned from",
            advice=how if worse else "look at the return; nothing needs to be done while it holds",
            advice_set=fix if worse else (),
            evidence=tuple(row.evidence(self._tag, *TAGS) for row in self._rows),
            signal=self._tag,
            threshold=self._level,
            window=limits.updates,
        )

    def _explain_unknown(self) -> Explanation:
        """How far above the usual, and since when no episode has ended that would show what the return does."""
        shock, silent = self._shock, self.context.returns.bursts.silent
        times = rounded(shock.loss / shock.usual) if shock.usual > 0.0 else "many"
        cause, _, _ = self._steps.blame()
        return Explanation(
            sentence=(
                f"value loss is {times} x the {rounded(shock.usual)} that is usual between bursts of episodes, and no "
                f"episode has ended in {silent:,} updates that would show what the return does"
                if silent
                else f"value loss has been far above the {rounded(shock.usual)} that is usual between bursts of "
                "episodes, and the newest burst has lost return"
            ),
            cause=f"all environments end their episodes at once; {cause}",
            # Fewer epochs were followed in three such trainings, and made all of them worse.
            advice=f"{ENVIRONMENT_FIRST}: {NONE_KNOWN}",
            evidence=tuple(row.evidence(self._tag, *TAGS) for row in self._rows),
            signal=self._tag,
            threshold=shock.level if math.isfinite(shock.level) else None,
            window=SHOCK_UPDATES,
        )

    def _explain_collapse(self) -> Explanation:
        """From what to what, and that the return is none to compare with that of before."""
        gone = self._collapse
        return Explanation(
            sentence=(
                f"value loss fell from {rounded(gone.least)} or more to less than {rounded(gone.level)} from one "
                "update to the next: no learning does that"
            ),
            cause=(
                "rewards are much smaller since, as where they are clipped, scaled or normalised: returns of before "
                "and after cannot be compared, nor does a rise between them mean that anything was learned"
            ),
            advice=f"{ENVIRONMENT_FIRST}: {NONE_KNOWN}",
            evidence=tuple(row.evidence(self._tag, *TAGS) for row in self._rows),
            signal=self._tag,
            threshold=gone.level,
            window=GONE_UPDATES,
        )

    def _explain_surprise(self) -> Explanation:
        """Since when values are wrong, and by how much; the cause is a change that the return need not show."""
        it = self._surprise
        cause, how, fix = self._steps.blame()
        before = f"after {rounded(it.least)} or more in {KNOWN - 1} of {KNOWN} updates"
        worse = f"explained variance fell at once to {rounded(it.now)}, {before}, " if it.contradicted else ""
        more = f"value loss rose at once to {rounded(it.times)} x its median of {KNOWN} updates, " if it.missed else ""
        return Explanation(
            sentence=(
                f"values were {'contradicted' if it.contradicted else 'surprised'} in update {it.since:,}: "
                f"{worse}{more}and the return went from {rounded(it.before)} to {rounded(it.after)}"
            ),
            cause=(
                "states are worth something else than all that was learned of them, as where rewards change their sign "
                f"or what is seen or done changes; a return that rises so need not be learned; {cause}"
            ),
            advice=how,
            advice_set=fix,
            evidence=tuple(row.evidence(self._tag, *TAGS) for row in self._rows),
            signal=EXPLAINED if it.contradicted else self._tag,
            threshold=it.level if it.contradicted else it.high,
            window=CONTRADICTED,
        )


class _Surprise:
    """Whether values were suddenly wrong, and the return has moved at once as well; over once values have been as good
    as before, or but a little worse, for `KNOWN` updates.

    Where explained variance falls and the loss rises, the return may go either way; where one of them does, longer, it
    has to fall, and by more.
    """

    def __init__(self) -> None:
        self._explained, self._losses, self._means = Numbers(KNOWN), Numbers(KNOWN), Numbers(KNOWN + 1)
        self._age = self._good = self._low_for = self._high_for = 0
        self._learned = False
        self.least = self.level = self.now = self.times = self.before = self.after = 0.0
        self.high = math.inf
        self.since = 0
        self.on = False

    @property
    def contradicted(self) -> bool:
        """Whether values were worse than a constant in the first update."""
        return self._low_for > 0

    @property
    def missed(self) -> bool:
        """Whether the loss was above all before in the first update."""
        return self._high_for > 0

    def update(self, row: Row, loss: float, returns: Returns, first: float) -> None:
        """Take in one update; `first` is the largest of the first losses."""
        explained = row.metrics.get(EXPLAINED, math.nan)
        if not math.isfinite(explained):
            return
        if self.on:
            self._good = self._good + 1 if explained >= self.level and not loss > self.high else 0
            self.on = self._good < KNOWN
        elif self._age or (returns.warm and self._is_odd(explained, loss)):
            self._look(row, explained, loss, first)
            if self._age:
                self._confirm(returns)
        if self.on or self._age:
            return
        self._explained.append(explained)
        self._losses.append(loss)
        if returns.latest is not None:
            self._means.append(returns.latest)

    def _is_odd(self, explained: float, loss: float) -> bool:
        """As few updates are, so that no more is computed in the others."""
        known = len(self._means) > KNOWN and len(self._losses) == KNOWN
        return known and (explained < 0.0 or (loss > self._losses[-1] and loss > max(self._losses)))

    def _look(self, row: Row, explained: float, loss: float, first: float) -> None:
        if not self._age:
            self.least, median = sorted(self._explained)[1], statistics.median(self._losses)
            self.level = min(0.0, self.least - LESS_BY) if self.least >= 0.0 else -math.inf
            self.high = max(*self._losses, LOSS_TIMES * median, SOLVED_SHARE * first)
            self._learned = not median > SOLVED_SHARE * first
            self.since, self.now = row.update, explained
            self.times = loss / median if median > 0.0 else math.inf
            self._low_for = self._high_for = 0
        age = self._age
        self._low_for += self._low_for == age and explained < self.level
        self._high_for += self._high_for == age and loss > self.high
        goes_on = age < max(self._low_for, self._high_for) or self._is_sure or self._is_likely
        self._age = age + 1 if goes_on and age < MOVED_WITHIN else 0

    @property
    def _is_sure(self) -> bool:
        return self._low_for > 0 and self._high_for >= CONTRADICTED

    @property
    def _is_likely(self) -> bool:
        """Where nearly nothing was left to be missed one slip multiplies the loss."""
        return not self._learned and (self._low_for >= CONTRADICTED or self._high_for > CONTRADICTED)

    def _confirm(self, returns: Returns) -> None:
        if returns.latest is None or not (self._is_sure or self._is_likely):
            return
        self.before, self.after = self._means[-1], returns.latest
        moved, span = self.after - self.before, returns.span
        steps = [after - before for before, after in pairwise(self._means)]
        usual = sum(steps) / KNOWN
        noise = math.hypot(*[step - usual for step in steps]) / math.sqrt(KNOWN)
        # A return that climbs steadily has not jumped where it goes on doing so.
        beyond = min(abs(moved), abs(moved - self._age * usual))
        jumped = beyond > max(MOVED_SIGMAS * noise, MOVED_SHARE * span)
        fell = -moved > max(FALLEN_SIGMAS * noise, FALLEN_SHARE * span)
        if (self._is_sure and jumped) or (self._is_likely and fell):
            self.on, self._age, self._good = True, 0, 0
            del self._explained[:], self._losses[:], self._means[:]


class _Collapse:
    """Whether the loss is gone since one update to the next; over once it is back above half of what it was."""

    def __init__(self) -> None:
        self._losses = Numbers(KNOWN)
        self._below = 0
        self.least = self.level = 0.0
        self.on = False

    def update(self, loss: float, least: float) -> None:
        """Take in one loss; what it falls from has to be more than `least`."""
        if self._below:
            self._below = self._below + 1 if loss < self.level else 0
            self.on = self._below >= GONE_UPDATES or (self.on and loss < self.least / 2.0)
            if self._below or self.on:
                return
            del self._losses[:]
        elif self.on:
            self.on = loss < self.least / 2.0
            return
        losses = self._losses
        if len(losses) == KNOWN and loss < GONE_SHARE * losses[-1]:
            self.least = min(losses)
            self.level = GONE_SHARE * self.least
            if loss < self.level and self.least > least:
                self._below = 1
                return
        losses.append(loss)
