"""Why a policy stands still, from what its own row and settings say: the most certain cause first."""

from __future__ import annotations

from mission_tui.fleet.health.phrases import learning_rate_of, pressure_of, pressure_sentence, rounded
from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.health.smaller_updates import TARGET_RADII
from mission_tui.fleet.health.trust_region import radius_of
from mission_tui.fleet.specs.sizes import REFERENCE_LEARNING_RATE
from mission_tui.fleet.specs.spec import Schedule

__all__ = ["cause_of_standstill"]

EARLY_SHARE = 0.25
DECAYED = 0.5
COLLAPSED = 0.05
NO_GRADIENT = 1e-6
LOW_PRESSURE = 0.25
LEAST_ENT_COEF = 0.01
LARGEST_RATE = 1e-2

Words = tuple[str, str, tuple[str, ...]]


def cause_of_standstill(row: Row, settings: Settings, first_rate: float, *, since: int, dead: bool) -> Words:
    """Cause, advice and assignments of a standstill that began at update `since`; `dead`: the KL is only rounding."""
    rate = learning_rate_of(row, settings)
    words = (
        _stopped_early(row, settings)
        or _decayed(rate, first_rate)
        or _collapsed(row, settings)
        or _no_gradient(row, since)
        or (_not_stepped(row, rate) if dead else _too_small(settings, rate))
    )
    return words or (pressure_sentence(settings, rate), _back(since), ())


def _stopped_early(row: Row, settings: Settings) -> Words | None:
    done, epochs, target = row.metrics.get("train/n_epochs_done"), settings.n_epochs, settings.target_kl
    if done is None or epochs is None or target is None or not done <= EARLY_SHARE * epochs:
        return None
    cause = f"target_kl {target:g} ends each update after {rounded(done)} of {epochs} epochs"
    return cause, "let updates go further", (f"ppo.target_kl={TARGET_RADII * radius_of(row, settings):.2g}",)


def _decayed(rate: float | None, first_rate: float) -> Words | None:
    if rate is None or not 0.0 <= rate < DECAYED * first_rate:
        return None
    cause = f"the learning rate has fallen from {first_rate:.3g} to {rate:.3g}"
    return (
        cause,
        "go back to an earlier checkpoint and keep the learning rate up",
        (f"ppo.learning_rate={first_rate:.3g}",),
    )


def _collapsed(row: Row, settings: Settings) -> Words | None:
    ratio = row.metrics.get("policy/entropy_ratio")
    if ratio is None or not ratio < COLLAPSED:
        return None
    cause = f"the policy chooses almost always the same: its entropy is {abs(ratio):.1%} of the maximum"
    advice = "do not resume from here, go back to a checkpoint with more entropy and reward it"
    if settings.ent_coef is None:
        return cause, advice, ()
    return cause, advice, (f"ppo.ent_coef={max(LEAST_ENT_COEF, 2.0 * settings.ent_coef):.3g}",)


def _no_gradient(row: Row, since: int) -> Words | None:
    norm = row.metrics.get("train/grad_norm")
    if norm is None or not norm < NO_GRADIENT:
        return None
    cause = f"no gradient arrives (norm {norm:.1g}): saturated or dead units, or advantages that do not differ"
    return cause, _back(since), ()


def _not_stepped(row: Row, rate: float | None) -> Words | None:
    norm = row.metrics.get("train/grad_norm")
    if rate == 0.0:
        return "the learning rate is 0", "set a learning rate", (f"ppo.learning_rate={REFERENCE_LEARNING_RATE:g}",)
    if norm is None:
        return None
    cause = f"gradients of norm {rounded(norm)} arrive and the policy does not follow: the optimizer does not step it"
    return cause, "stop, and see that the optimizer holds the parameters of the policy that acts", ()


def _too_small(settings: Settings, rate: float | None) -> Words | None:
    pressure = pressure_of(settings, rate)
    if (
        rate is None
        or pressure is None
        or not 0.0 < pressure < LOW_PRESSURE
        or isinstance(settings.learning_rate, Schedule)
    ):
        return None
    better = min(rate / pressure, LARGEST_RATE)
    if better <= rate:
        return None
    return pressure_sentence(settings, rate), "learn faster", (f"ppo.learning_rate={better:.2g}",)


def _back(since: int) -> str:
    return f"do not resume from here, go back to a checkpoint from before update {since:,}"
