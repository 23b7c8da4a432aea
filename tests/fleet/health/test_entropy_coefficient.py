"""`ent-coef`: SAC's entropy coefficient far above where it began."""

from __future__ import annotations

from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.rules.entropy_coefficient import EntropyCoefficient
from tests.fleet.health.one_rule import watch


def coefficients(values: list[float], *, critic: bool = True) -> list[Row]:
    """A row for each coefficient."""
    losses = {"train/critic_loss": 1.0} if critic else {}
    return [Row(1, n, 200 * n, {"train/ent_coef": value} | losses) for n, value in enumerate(values, 1)]


def test_ten_times_the_start_is_a_warning_and_a_hundred_times_critical() -> None:
    """From the fifth row on; back below five times it is over. A tenfold rise from a low is none: the start counts."""
    seen = watch(EntropyCoefficient, coefficients([1.0] * 5 + [11.0] * 10 + [200.0] * 10 + [2.0] * 10))
    assert seen.incidents == [("critical", 10, 29)]
    assert seen.words[0].sentence.startswith("entropy coefficient is 11, 11 x its start of 1")
    assert watch(EntropyCoefficient, coefficients([1.0, 0.1, 0.01] + [0.9] * 20)).incidents == []
    assert watch(EntropyCoefficient, coefficients([1.0] + [11.0] * 4 + [1.0] * 9)).incidents == []


def test_only_a_learned_coefficient_counts() -> None:
    """A program of PPO may log its own setting under this tag, and has no critic."""
    assert watch(EntropyCoefficient, coefficients([0.01] + [1.0] * 30, critic=False)).incidents == []
