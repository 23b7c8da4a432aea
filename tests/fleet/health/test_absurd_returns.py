"""The rules of returns, lengths and outcomes survive whatever a row may hold, and say what can be written down."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

from mission_tui.fleet.health.rule import Explanation, Row, Rule
from mission_tui.fleet.health.rules.drawdown import Drawdown
from mission_tui.fleet.health.rules.oscillation import RewardOscillation
from mission_tui.fleet.health.rules.outcomes import Outcomes
from mission_tui.fleet.health.rules.plateau import Plateau
from mission_tui.fleet.health.rules.stall import Stall
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.specs.thresholds import (
    DrawdownLimits,
    Limits,
    OutcomesLimits,
    PlateauLimits,
    RewardOscillationLimits,
    StallLimits,
)
from tests.fleet.health.one_rule import SampledRow, watch

RULES: tuple[type[Rule], ...] = (Drawdown, RewardOscillation, Outcomes, Plateau, Stall)
SETTINGS = Settings(total_timesteps=100, rollout=1, max_episode_steps=10, gamma=0.9, env_id="MissionGym-v0")

JUMPY = Limits(
    drawdown=DrawdownLimits(warning=0.01, warning_updates=1, critical=0.02, critical_updates=2, least_gain_sigmas=1e-9),
    reward_oscillation=RewardOscillationLimits(swings=1, share=0.01, errors=1e-9),
    stall=StallLimits(window=6, every=1, length_rise=0.01, length_leave=0.0, z=0.01, looks=1, critical_windows=1),
    outcomes=OutcomesLimits(bad_share=0.1, rise=0.0, z=1e-9, updates=4),
    plateau=PlateauLimits(updates=2),
)
"""Limits so low that nearly anything is a finding: words are tried too."""

TAGS = ("rollout/ep_rew_mean", "rollout/ep_len_mean", "rollout/success_rate", "train/approx_kl", "train/learning_rate")
NUMBERS = (0.0, 1.0, -1.0, 2.5, 5e-324, 1e308, -1e308, math.nan, math.inf, -math.inf)
COUNTS = (1, 3, 60, 10**300)


def absurd(seed: int, count: int = 200) -> list[Row]:
    """Rows in which nothing is as it should be, between stretches that are."""
    dice = random.Random(seed)

    def number() -> float:
        return dice.choice(NUMBERS) if dice.random() < 0.2 else dice.gauss(100.0, 30.0)

    def row(place: int) -> Row:
        words = {word: dice.choice(COUNTS) for word in ("captured", "timeout", "x") if dice.random() < 0.5}
        return SampledRow(
            attempt=1,
            update=place if dice.random() < 0.9 else dice.randrange(10**6),
            timesteps=dice.choice([place, -(10**300), 10**300]),
            metrics={tag: number() for tag in TAGS if dice.random() < 0.8},
            returns=tuple(number() for _ in range(dice.randrange(12))),
            lengths=tuple(dice.choice([-1, 5, 10**400]) for _ in range(dice.randrange(12))),
            episodes=dice.randrange(200),
            outcomes=words or None,
        )

    return [row(place) for place in range(1, count)]


def is_sound(words: Explanation) -> bool:
    """Evidence that can be written and read again, at most 12 rows of it, and a threshold that can be drawn."""
    written = msgspec.json.decode(msgspec.json.encode(words.evidence))
    drawn = words.threshold is None or math.isfinite(words.threshold)
    return drawn and written == [dict(line) for line in words.evidence] and len(words.evidence) <= 12


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("seed", range(8))
def test_no_row_makes_a_rule_raise(kind: type[Rule], seed: int) -> None:
    """Missing, blank, NaN, infinite, huge and reordered values, and every word that they lead to."""
    assert all(is_sound(words) for words in watch(kind, absurd(seed), SETTINGS, JUMPY).words)


@pytest.mark.parametrize("kind", RULES)
def test_the_jumpy_limits_really_bring_words(kind: type[Rule]) -> None:
    """So that the property above says something: a run that goes up and down at its cap has words from every rule."""
    said = [
        SampledRow(
            1,
            number,
            number,
            {"rollout/ep_rew_mean": 10.0 * (number // 25 % 2), "rollout/ep_len_mean": 5.0 + 0.1 * number},
            returns=(10.0 * (number // 25 % 2) + number % 2,) * 12,
            episodes=60,
            outcomes={"timeout": 60},
        )
        for number in range(1, 100)
    ]
    assert watch(kind, said, SETTINGS, JUMPY).words
