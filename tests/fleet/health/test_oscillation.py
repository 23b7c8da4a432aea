"""`reward-oscillation`: swings that neither noise nor learning nor a single fall can make."""

from __future__ import annotations

import math
import random

import pytest
from msgspec.structs import replace

from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.rules.oscillation import RewardOscillation
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.specs.thresholds import Limits, RewardOscillationLimits
from tests.fleet.health.one_rule import ABSENT, TRACES, SampledRow, incidents_on, rows, watch

PERIOD = 40
LEARNED = [float(min(number, 100)) for number in range(150)]


def swinging(updates: int, size: float = 60.0, sigma: float = 1.0) -> list[float]:
    """A learned task whose return then swings by `size` every 20 updates."""
    dice = random.Random(3)
    waves = [100.0 - size * (0.5 - 0.5 * math.cos(2 * math.pi * number / PERIOD)) for number in range(updates)]
    return [value + dice.gauss(0.0, sigma) for value in (*LEARNED, *waves)]


def played(means: list[float], sigma: float, count: int) -> list[SampledRow]:
    """An update of `count` episodes around each mean; the row's own mean is that of the last 100, as a trainer says."""
    dice, recent, found = random.Random(5), list[float](), list[SampledRow]()
    for number, mean in enumerate(means, start=1):
        returns = tuple(dice.gauss(mean, sigma) for _ in range(count))
        recent = [*recent, *returns][-100:]
        tags = {"rollout/ep_rew_mean": sum(recent) / len(recent)}
        found.append(SampledRow(1, number, 1000 * number, tags, returns=returns, episodes=count))
    return found


def test_four_swings_in_a_hundred_updates_are_a_warning() -> None:
    """A swing every 20 updates: the fourth opens the incident, which lasts while the swings do."""
    watched = watch(RewardOscillation, rows(swinging(200)))
    [(severity, first, last)] = watched.incidents
    assert severity == "warning"
    assert 150 + 50 <= first <= 150 + 90
    assert last == 350
    words = watched.words[0]
    assert words.sentence.startswith("return swung 4 times in 100 updates, between 39.03 and 100")
    assert (words.signal, words.window, len(words.evidence)) == ("rollout/ep_rew_mean", 100, 5)


def test_it_ends_when_the_return_settles() -> None:
    """A hundred quiet updates after the last swing there is nothing left to say."""
    watched = watch(RewardOscillation, rows([*swinging(200), *[100.0] * 150]))
    [(_, _, last)] = watched.incidents
    assert 350 < last <= 350 + 100


def test_one_fall_and_recovery_is_no_oscillation() -> None:
    """Two swings are one accident."""
    assert watch(RewardOscillation, rows([*LEARNED, *[10.0] * 30, *[100.0] * 200])).incidents == []


def test_small_waves_are_no_oscillation() -> None:
    """Swings of a fifth of the range are ordinary."""
    assert watch(RewardOscillation, rows(swinging(200, size=20.0))).incidents == []


@pytest.mark.parametrize("seed", range(5))
def test_noise_alone_is_no_oscillation(seed: int) -> None:
    """Independent means without any trend have a range that is all noise: their own errors stand against it."""
    dice = random.Random(seed)
    assert watch(RewardOscillation, rows([dice.gauss(0.0, 1.0) for _ in range(1000)])).incidents == []


def test_swings_with_a_drawdown_are_critical() -> None:
    """When the swings end at the bottom, most of the gain is lost on top."""
    watched = watch(RewardOscillation, rows([*swinging(140, size=90.0), *[2.0] * 40]))
    assert [severity for severity, *_ in watched.incidents] == ["critical"]
    assert watched.words[-1].sentence.endswith("and most of what was gained is lost")


def test_episodes_show_swings_that_the_mean_of_a_hundred_hides() -> None:
    """Two episodes an update: a period of 40 updates is shorter than the memory of the mean, and still found."""
    found = played(swinging(200, size=90.0), sigma=10.0, count=2)
    assert watch(RewardOscillation, found).incidents != []
    hidden = [replace(row, returns=(), episodes=0) for row in found]
    assert watch(RewardOscillation, hidden).incidents == []


@pytest.mark.parametrize("count", [1, 3, 30])
def test_noisy_episodes_are_no_oscillation(count: int) -> None:
    """Episodes that scatter as widely as the task's whole range say nothing by themselves."""
    assert watch(RewardOscillation, played([*LEARNED, *[100.0] * 400], 60.0, count)).incidents == []


def test_rare_successes_are_no_oscillation() -> None:
    """Where nearly all episodes fail alike, a block without any luck is no surer than the others."""
    dice, found = random.Random(8), list[Row]()
    for number in range(1, 400):
        returns = tuple(-100.0 if dice.random() < 0.1 else -200.0 for _ in range(3))
        found.append(SampledRow(1, number, 1000 * number, {"rollout/ep_rew_mean": -190.0}, returns=returns, episodes=3))
    assert watch(RewardOscillation, found).incidents == []


def test_the_limits_decide() -> None:
    """With eight swings needed, five in a window are none."""
    strict = Limits(reward_oscillation=RewardOscillationLimits(swings=8))
    assert watch(RewardOscillation, rows(swinging(200)), limits=strict).incidents == []


def test_the_memory_of_a_mean_hides_its_error() -> None:
    """Means that share most of their episodes differ little and are yet unsure: 3 new of 100 are allowed for."""
    values = [row.metrics["rollout/ep_rew_mean"] for row in played([0.0] * 1000, 10.0, 3)]
    lengths = [333.0] * len(values)
    assert (
        watch(RewardOscillation, rows(values, lengths), Settings(total_timesteps=10**6, rollout=1000)).incidents == []
    )
    assert watch(RewardOscillation, rows(values), Settings(total_timesteps=10**6, rollout=1000)).incidents != []


@pytest.mark.skipif(not TRACES.is_dir(), reason=ABSENT)
def test_healthy_runs_of_others() -> None:
    """None in forty runs, though the scores of one went up and down by a sixth of a million."""
    found = [(trace, severity) for trace, (severity, *_), _ in incidents_on(RewardOscillation, "healthy")]
    assert found == []
