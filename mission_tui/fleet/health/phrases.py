"""Phrases that the causes and advice of several rules share, always computed from the run's own settings."""

from __future__ import annotations

from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.specs.sizes import REFERENCE_GRADIENT_STEPS, REFERENCE_LEARNING_RATE
from mission_tui.fleet.specs.spec import Schedule

__all__ = ["halved_learning_rate", "learning_rate_of", "pressure_of", "pressure_sentence", "rounded"]


def learning_rate_of(row: Row | None, settings: Settings) -> float | None:
    """The learning rate of `row`'s update; what the settings start with when the row does not say."""
    return row.metrics.get("train/learning_rate", settings.starting_rate) if row else settings.starting_rate


def rounded(value: float) -> str:
    """Two digits for small numbers, whole ones from a hundred to a billion: no exponent for what a person compares."""
    return f"{value:,.0f}" if 99.5 <= abs(value) < 1e9 else f"{value:.2g}"


def pressure_of(settings: Settings, learning_rate: float | None) -> float | None:
    """Gradient steps per update x learning rate as a multiple of the reference's 16 x 2.5e-4 (source 004)."""
    if settings.gradient_steps is None or learning_rate is None:
        return None
    return settings.gradient_steps * learning_rate / (REFERENCE_GRADIENT_STEPS * REFERENCE_LEARNING_RATE)


def pressure_sentence(settings: Settings, learning_rate: float | None) -> str:
    """The update pressure in words, as far as it is known."""
    pressure = pressure_of(settings, learning_rate)
    if pressure is not None and settings.gradient_steps is not None:
        return (
            f"{settings.gradient_steps:,} gradient steps x {learning_rate:.3g} per update is {rounded(pressure)} x "
            f"the reference ({REFERENCE_GRADIENT_STEPS} x {REFERENCE_LEARNING_RATE:g})"
        )
    if learning_rate is not None:
        return f"a learning rate of {learning_rate:.3g}, with an unknown number of gradient steps per update"
    return "learning rate and gradient steps per update are not in this log"


def halved_learning_rate(settings: Settings, row: Row | None = None) -> tuple[str, ...]:
    """The assignment that halves the run's learning rate, schedule or number; none when it is not known."""
    rate = settings.learning_rate
    if isinstance(rate, Schedule):
        return (
            f'ppo.learning_rate={{ start = {rate.start / 2:.3g}, end = {rate.end / 2:.3g}, kind = "{rate.kind}" }}',
        )
    current = rate if rate is not None else learning_rate_of(row, settings)
    return (f"ppo.learning_rate={current / 2:.3g}",) if current and 0.0 < current <= 2.0 else ()
