"""Settings so far from any that PPO is known to learn with that they are to be changed first, whatever rule speaks.

The RL zoo's tuned settings of PPO have a gamma of 0.9 to 0.9999, a weight of 0.19 to 0.84 for the value loss, an
entropy bonus of up to 0.01, and learning rates of 2e-5 to 1e-3; the limits lie well outside. docs/health/advice.md has
what such a change was measured to cure.
"""

from __future__ import annotations

from msgspec.structs import replace

from mission_tui.fleet.health.loss_parts import MOST_ENTROPY_COEF, LossParts
from mission_tui.fleet.health.phrases import learning_rate_of, pressure_of, pressure_sentence
from mission_tui.fleet.health.rule import Explanation, Row
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.health.trust_region import far_too_high
from mission_tui.fleet.specs.sizes import REFERENCE_LEARNING_RATE
from mission_tui.fleet.specs.spec import Schedule

NOT_OF_LEARNING = frozenset(
    {"hang", "throughput", "checkpoint-age", "resume-probe", "thread-contention", "gpu-idle", "after-change"}
)
"""Rules whose trouble no setting of PPO makes."""
CODE_TOO = frozenset({"nan", "ratio"})
"""Rules that may speak of an environment's or a policy's own code, and then advise no setting."""
LEAST_GAMMA, USUAL_GAMMA = 0.8, 0.99
LEAST_VALUE_COEF, USUAL_VALUE_COEF = 0.1, 0.5
USUAL_ENTROPY_COEF = 0.01
LEAST_PRESSURE = 1e-3
"""Of the reference's update pressure: a policy that learns so slowly stands still for all anybody can see."""

Words = tuple[str, str, tuple[str, ...]]


def usual_first(rule: str, words: Explanation, settings: Settings, losses: LossParts, row: Row | None) -> Explanation:
    """`words` of `rule`, or with the cause and advice of a setting that no known training has, as far as the settings
    say it, or `losses` tell it of a log that does not.
    """
    if rule in NOT_OF_LEARNING or (rule in CODE_TOO and not words.advice_set):
        return words
    found = _rate(settings, row) or _coefficient(settings, losses)
    if found is None:
        return words
    cause, advice, assignments = found
    return replace(words, cause=cause, advice=advice, advice_set=assignments)


def _rate(settings: Settings, row: Row | None) -> Words | None:
    """A rate that the settings themselves plan; one that has decayed is a schedule's or a tamperer's."""
    rate = learning_rate_of(row, settings)
    pressure = pressure_of(settings, rate)
    cause = pressure_sentence(settings, rate)
    if (usual := far_too_high(settings, row)) is not None:
        return cause, *usual
    planned = settings.learning_rate
    if rate is None or pressure is None:
        return None
    if isinstance(planned, Schedule) or planned is None or not 0.0 < rate <= planned:
        return None
    if pressure_of(settings, planned) is not None and pressure < LEAST_PRESSURE and planned < 2.0 * rate:
        better = min(REFERENCE_LEARNING_RATE, rate / pressure)
        return cause, "raise the learning rate to a usual one", (f"ppo.learning_rate={better:.2g}",)
    return None


def _coefficient(settings: Settings, losses: LossParts) -> Words | None:
    gamma, value, entropy = settings.gamma, settings.vf_coef, settings.ent_coef
    if gamma is not None and gamma < LEAST_GAMMA:
        return (
            f"ppo.gamma = {gamma:g} looks {round(1.0 / (1.0 - gamma), 1):g} steps ahead, and no further",
            "let the policy look further ahead",
            (f"ppo.gamma={USUAL_GAMMA:g}",),
        )
    if losses.values_are_untaught or (value is not None and value < LEAST_VALUE_COEF):
        weight = f"ppo.vf_coef = {value:g}" if value is not None else "by train/loss ppo.vf_coef is about 0"
        return (
            f"{weight}: the value function hardly learns, so advantages are mostly noise",
            "give the value loss its usual weight",
            (f"ppo.vf_coef={USUAL_VALUE_COEF:g}",),
        )
    if losses.bonus is not None or (entropy is not None and entropy > MOST_ENTROPY_COEF):
        bonus = f"ppo.ent_coef = {entropy:g}" if entropy is not None else losses.told_bonus
        return (
            f"{bonus}: acting at random pays more than the task does",
            "lower the entropy bonus to a usual one",
            (f"ppo.ent_coef={USUAL_ENTROPY_COEF:g}",),
        )
    return None
