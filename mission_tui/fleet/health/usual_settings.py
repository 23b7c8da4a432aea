"""Settings so far from any that PPO is known to learn with that they are to be changed first, whatever rule speaks.

The RL zoo's tuned settings of PPO have a gamma of 0.9 to 0.9999, a weight of 0.19 to 0.84 for the value loss, an
entropy bonus of up to 0.01, and learning rates of 2e-5 to 1e-3; the limits lie well outside. docs/health/advice.md has
what such a change was measured to cure.

Of a log whose settings are not known, its losses tell of two of them. SB3's `train/loss` is that of the last minibatch,
policy + vf_coef x value - ent_coef x entropy; beside it stand means of the parts over the whole update. Where it stays
next to that of the policy although values miss by far, the value loss has no weight. Where it lies far below that of
the policy, entropy is paid for, and by at least so much: no value loss is negative. Whether a value loss that is small
has a weight cannot be told: rare large errors make its mean, and the last minibatch seldom has them.
"""

from __future__ import annotations

import math
import statistics

from msgspec.structs import replace

from mission_tui.fleet.health.phrases import learning_rate_of, pressure_of, pressure_sentence, rounded
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.health.trust_region import LOWER_FOR_STEPS, LOWER_RATE, far_too_high
from mission_tui.fleet.specs.sizes import REFERENCE_LEARNING_RATE
from mission_tui.fleet.specs.spec import Schedule
from mission_tui.fleet.windows import Numbers

NOT_OF_LEARNING = frozenset(
    {"hang", "throughput", "checkpoint-age", "resume-probe", "thread-contention", "gpu-idle", "after-change"}
)
"""Rules whose trouble no setting of PPO makes."""
OWN_SETTING = frozenset({"ent-coef"})
"""Rules that are about such a setting themselves, and name it."""
CODE_TOO = frozenset({"nan", "ratio"})
"""Rules that may speak of an environment's or a policy's own code, and then advise no setting."""
LEAST_GAMMA, USUAL_GAMMA = 0.8, 0.99
LEAST_VALUE_COEF, USUAL_VALUE_COEF = 0.1, 0.5
USUAL_ENTROPY_COEF = 0.01
LEAST_PRESSURE = 1e-3
"""Of the reference's update pressure: a policy that learns so slowly stands still for all anybody can see."""
LEAST_RATE = 1e-6
"""A constant rate below it is one that nobody learns with, whatever the gradient steps: published ones are 2e-5 on."""
LEAST_ROLLOUT, USUAL_STEPS = 8, 2048
"""Transitions of an update below which its advantages are luck: the RL zoo's tuned MountainCarContinuous has 8, all
other published settings of PPO 256 and more.
"""
LEAST_GRAD_NORM, USUAL_GRAD_NORM = 1e-4, 0.5
"""Adam divides by the length of gradients plus SB3's 1e-5: cut to less than that, they move next to nothing."""
LOSS, POLICY_LOSS = "train/loss", "train/policy_gradient_loss"
KL = "train/approx_kl"
VALUE_LOSS, ENTROPY_LOSS = "train/value_loss", "train/entropy_loss"
ENTROPY_COEF, CRITIC_LOSS = "train/ent_coef", "train/critic_loss"
"""SAC writes both. A program of PPO that writes the first says its own setting."""
NEEDED, LOOKS = 12, 16
LEAST_WEIGHT = 0.02
"""Published settings of PPO have a `vf_coef` of 0.19 and more; the last minibatch's loss may lie far below the mean."""
LEAST_LOSS = 0.3
"""Below it the entropy bonus and the noise of the policy's loss are as large as a healthy value loss."""
MOST_ENTROPY_COEF = 0.1
"""Published settings of PPO have an `ent_coef` of up to 0.01."""
STILL_RANDOM = 0.85
"""Of its largest entropy, from which on a policy is about as random as untrained. Measured on six small tasks: 0.86 to
1 for a bonus of 0.5 to 3, below 0.7 once a task is learned.
"""
LEAST_PAID = 0.1
"""By chance a loss lies so far below that of its policy in at most 1 of 16 updates, measured in 590 trainings; in all
of them where the bonus is 1 and rewards are normalised.
"""

ANY_RULE = "any"
RAISE_RATE = "raise the learning rate to a usual one"
SET_RATE = "set a learning rate"
LONGER_ROLLOUT = "collect more steps before each update"
WHOLE_GRADIENTS = "leave gradients their usual length"
LOOK_AHEAD = "let the policy look further ahead"
TEACH_VALUES = "give the value loss its usual weight"
SMALLER_BONUS = "lower the entropy bonus to a usual one"
FURTHER_AHEAD = "let values look further ahead"
GIVE_WEIGHT = "give the value loss a weight"
"""What the rule of the values says in place of two of these, which it knows more of."""
USUAL_ADVICE = frozenset(
    (
        RAISE_RATE,
        SET_RATE,
        LONGER_ROLLOUT,
        WHOLE_GRADIENTS,
        LOOK_AHEAD,
        TEACH_VALUES,
        SMALLER_BONUS,
        FURTHER_AHEAD,
        GIVE_WEIGHT,
        LOWER_FOR_STEPS,
        LOWER_RATE,
    )
)
"""What is advised here, which cures the same whichever rule speaks."""

Words = tuple[str, str, tuple[str, ...]]


def usual_first(rule: str, words: Explanation, settings: Settings, losses: LossParts, row: Row | None) -> Explanation:
    """`words` of `rule`, or with the cause and advice of a setting that no known training has, as far as the settings
    say it, or `losses` tell it of a log that does not.
    """
    if rule in NOT_OF_LEARNING | OWN_SETTING or (rule in CODE_TOO and not words.advice_set):
        return words
    found = _rate(settings, row) or _rollout(settings, row) or _cut(settings) or _coefficient(settings, losses)
    if found is None:
        return words
    cause, advice, assignments = found
    settled = words.advice_set == assignments or words.compare_first
    if settled and words.advice_set and _key(words.advice_set) == _key(assignments):
        return words  # the rule has advised it itself, and knows more of how the run does
    return replace(words, cause=cause, advice=advice, advice_set=assignments, compare_first=False)


def _key(assignments: tuple[str, ...]) -> str:
    return assignments[0].partition("=")[0]


def evidence_key(rule: str, advice: str, assignment: str) -> tuple[str, str]:
    """Under which rule and setting trainings are counted that followed `advice` of `rule`; whether that says to compare
    first is no other cure.
    """
    return ANY_RULE if advice.partition("; ")[0] in USUAL_ADVICE else rule, assignment.partition("=")[0]


def _rate(settings: Settings, row: Row | None) -> Words | None:
    """A rate that the settings themselves plan; one that has decayed is a schedule's or a tamperer's."""
    if settings.algo == "ars":
        return None  # no gradient: its rate is a share of what perturbations of the weights differ in
    rate = learning_rate_of(row, settings)
    pressure = pressure_of(settings, rate)
    cause = pressure_sentence(settings, rate)
    if (usual := far_too_high(settings, row)) is not None:
        return cause, *usual
    planned = settings.learning_rate
    if rate is not None and pressure is None and 0.0 <= rate < LEAST_RATE and planned == rate:
        reference = (f"ppo.learning_rate={REFERENCE_LEARNING_RATE:g}",)
        if rate == 0.0:
            return "the learning rate is 0", SET_RATE, reference
        return cause, RAISE_RATE, reference
    if rate is None or pressure is None:
        return None
    if isinstance(planned, Schedule) or planned is None or not 0.0 < rate <= planned:
        return None
    if pressure_of(settings, planned) is not None and pressure < LEAST_PRESSURE and planned < 2.0 * rate:
        better = min(REFERENCE_LEARNING_RATE, rate / pressure)
        return cause, RAISE_RATE, (f"ppo.learning_rate={better:.2g}",)
    return None


def _rollout(settings: Settings, row: Row | None) -> Words | None:
    """A handful of transitions, which PPO and its kin alone are known not to learn from: A2C has few."""
    size = settings.rollout
    if size is None or not 0 < size < LEAST_ROLLOUT or row is None or KL not in row.metrics:
        return None
    return (
        f"an update learns from {size} transitions, too few to tell a good action from a lucky one",
        LONGER_ROLLOUT,
        (f"ppo.n_steps={USUAL_STEPS // (settings.n_envs or 1)}",),
    )


def _cut(settings: Settings) -> Words | None:
    """Gradients that are cut to nothing."""
    if not 0.0 < settings.max_grad_norm < LEAST_GRAD_NORM:
        return None
    return (
        f"ppo.max_grad_norm = {settings.max_grad_norm:g} cuts every gradient to next to nothing",
        WHOLE_GRADIENTS,
        (f"ppo.max_grad_norm={USUAL_GRAD_NORM:g}",),
    )


def _coefficient(settings: Settings, losses: LossParts) -> Words | None:
    gamma, value = settings.gamma, settings.vf_coef
    if gamma is not None and gamma < LEAST_GAMMA:
        return (
            f"ppo.gamma = {gamma:g} looks {round(1.0 / (1.0 - gamma), 1):g} steps ahead, and no further",
            LOOK_AHEAD,
            (f"ppo.gamma={USUAL_GAMMA:g}",),
        )
    if losses.values_are_untaught or (value is not None and value < LEAST_VALUE_COEF):
        weight = f"ppo.vf_coef = {value:g}" if value is not None else "by train/loss ppo.vf_coef is about 0"
        return (
            f"{weight}: the value function hardly learns, so advantages are mostly noise",
            TEACH_VALUES,
            (f"ppo.vf_coef={USUAL_VALUE_COEF:g}",),
        )
    return bonus_words(losses) if losses.large_bonus else None


def bonus_words(losses: LossParts) -> Words:
    """Cause and advice of an entropy bonus that is too large."""
    return (
        f"{losses.large_bonus}: acting at random pays more than the task does",
        SMALLER_BONUS,
        (f"ppo.ent_coef={USUAL_ENTROPY_COEF:g}",),
    )


class LossParts:
    """Follows one attempt. Of settings that are known it says what they are; only of an entropy bonus that is far above
    the known one do losses tell, which a run's own code has set then.
    """

    def __init__(self, settings: Settings) -> None:
        self._vf_coef, self._ent_coef = settings.vf_coef, settings.ent_coef
        self._policy_alone, self._paid = Hysteresis(NEEDED, LOOKS), Hysteresis(NEEDED, LOOKS)
        self._bonuses = Numbers(LOOKS)
        self._said: float | None = None

    def update(self, row: Row) -> None:
        """Take in one update."""
        if self._vf_coef is not None and self.sets_bonus:
            return
        if CRITIC_LOSS not in row.metrics and math.isfinite(said := row.metrics.get(ENTROPY_COEF, math.nan)):
            self._said = said
        total, policy = row.metrics.get(LOSS, math.nan), row.metrics.get(POLICY_LOSS, math.nan)
        if not (math.isfinite(total) and math.isfinite(policy)):
            return
        value, entropy = row.metrics.get(VALUE_LOSS, math.nan), -row.metrics.get(ENTROPY_LOSS, math.nan)
        if self._vf_coef is None and value >= LEAST_LOSS:
            share = abs(total - policy) / value
            self._policy_alone.update(over=share < LEAST_WEIGHT, calm=share >= LEAST_WEIGHT)
        if 0.0 < entropy < math.inf:
            paid = policy - total
            much = paid > max(LEAST_PAID, MOST_ENTROPY_COEF * entropy)
            self._paid.update(over=much, calm=not much)
            self._bonuses.append(paid / entropy)

    @property
    def values_are_untaught(self) -> bool:
        """Whether the value loss has no weight: known, or seen in 12 of 16 updates."""
        return self._policy_alone.on if self._vf_coef is None else self._vf_coef == 0.0

    @property
    def bonus(self) -> float | None:
        """What `ent_coef` is at least, where that is not known and more than anybody sets; else None."""
        known = self._ent_coef is not None or self._said is not None
        return statistics.median(self._bonuses) if self._paid.on and not known else None

    @property
    def sets_bonus(self) -> bool:
        """Whether the settings themselves have a bonus that is more than anybody sets."""
        return self._ent_coef is not None and self._ent_coef > MOST_ENTROPY_COEF

    @property
    def unknown_bonus(self) -> Words | None:
        """Cause and advice of a bonus that losses tell of although the settings have a usual one; else None."""
        if self._ent_coef is None or self.sets_bonus or not self._paid.on:
            return None
        told = f"at least {rounded(statistics.median(self._bonuses))}, and not the {self._ent_coef:g} of ppo.ent_coef"
        cause = f"by train/loss the entropy bonus is {told}: acting at random pays more than the task does"
        return cause, "look for code that sets ent_coef while it trains", ()

    @property
    def large_bonus(self) -> str:
        """A bonus that is more than anybody sets in words, as settings, the log or its losses say it; else ""."""
        known = self._ent_coef if self._ent_coef is not None else self._said
        if known is None:
            return self.told_bonus
        return f"ppo.ent_coef = {known:g}" if known > MOST_ENTROPY_COEF else ""

    @property
    def told_bonus(self) -> str:
        """The same in words; "" where the losses do not show it."""
        return "" if self.bonus is None else f"by train/loss ppo.ent_coef is at least {self.bonus:.2g}"
