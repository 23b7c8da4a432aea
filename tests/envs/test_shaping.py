"""Shaping: an oscillator earns nothing under best_so_far, and a lot under one_way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mission_tui.envs import MissionGym, MissionGymVector
from mission_tui.envs.mission import Shaping
from tests.envs.scripted import EAST, HOLD, NORTH, SOUTH, WEST

ENDLESS: dict[str, Any] = {
    "rules": {"stall_s": 0, "time_limit_s": 2000},
    "units": {"air": {"endurance_s": 2000}, "ground": {"endurance_s": 2000}},
}
THERE_AND_BACK = [(EAST, WEST), (WEST, EAST), (NORTH, SOUTH), (2, 6), (4, 8)]
CYCLES = [[there] * half + [back] * half for there, back in THERE_AND_BACK for half in (1, 2, 3, 8)]


def returns(config: str, shaping: Shaping, cycles: list[list[int]], decisions: int) -> NDArray[np.float64]:
    """Return after each decision (rows) for each cycle of orders (columns), from the same start, repeated by all."""
    env = MissionGymVector(len(cycles), config, shaping=shaping, overrides=ENDLESS)
    env.reset(seed=[4] * len(cycles))
    attackers = len(env.mission.units.attackers)
    rewards = []
    for i in range(decisions):
        orders = np.array([[cycle[i % len(cycle)]] * attackers for cycle in cycles])
        rewards.append(env.step(orders)[1])
    return np.cumsum(rewards, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("config", ["standard", "demo"])
def test_oscillating_never_beats_standing_plus_its_first_improvement(config: str) -> None:
    """Under best_so_far an oscillator's return, at every length, is at most standing still plus one improvement."""
    *oscillating, standing = returns(config, "best_so_far", [*CYCLES, [HOLD]], 1200).T
    for cycle, result in zip(CYCLES, oscillating, strict=True):
        surplus = result - standing
        first_improvement = max(surplus[: len(cycle)].max(), 0.0)
        assert np.all(surplus <= first_improvement + 1e-9)


@pytest.mark.parametrize("config", ["standard", "demo"])
def test_oscillating_scores_strictly_below_progress(config: str) -> None:
    """From the end of its first cycle on, an oscillator has less than an attacker that keeps advancing."""
    *oscillating, advancing = returns(config, "best_so_far", [*CYCLES, [EAST]], 36).T
    for cycle, result in zip(CYCLES, oscillating, strict=True):
        assert np.all(result[len(cycle) - 1 :] < advancing[len(cycle) - 1 :])


@pytest.mark.slow
@pytest.mark.parametrize("config", ["standard", "demo"])
def test_one_way_pays_for_oscillating(config: str) -> None:
    """Under one_way the same oscillator gains in every cycle: far more than standing, and more the longer it lasts."""
    cycles = [[EAST, WEST], [HOLD]]
    oscillating, standing = returns(config, "one_way", cycles, 400).T
    surplus = oscillating - standing
    honest = np.subtract(*returns(config, "best_so_far", cycles, 400).T)
    assert oscillating[399] > 1.0 > 0.0 > standing[399]
    assert surplus[399] > 100 * honest[399]
    assert surplus[399] > 1.9 * surplus[199]


def test_two_way_telescopes() -> None:
    """Under two_way the gains of a closed path cancel: only the net approach pays."""
    env = MissionGym("demo", shaping="two_way", overrides={**ENDLESS, "rewards": {"step_cost": 0}})
    env.reset(seed=4)
    start = env.core.fields.distance_m[0]
    rng = np.random.default_rng(0)
    total = sum(env.step(rng.integers(0, 9, 3))[1] for _ in range(100))
    assert total == pytest.approx(env.mission.rewards.progress_per_m * (start - env.core.fields.distance_m[0]))


def test_losing_a_unit_is_never_progress() -> None:
    """A disabled straggler keeps counting where it lies, so its loss pays no shaping."""
    env = MissionGym("demo", overrides={**ENDLESS, "rewards": {"unit_lost": 0, "step_cost": 0}})
    env.reset(seed=4)
    env.core.fields.armour[:] = 1
    env.core.fields.guard_x[:], env.core.fields.guard_y[:] = env.core.fields.x[0], env.core.fields.y[0]
    _, reward, *_ = env.step(np.zeros(3, dtype=np.int64))
    assert not env.core.fields.alive[0, 0]
    assert reward == 0


def test_observed_best_distance_is_the_record() -> None:
    """The last observed value is the best distance so far: it falls with progress and stays when retreating."""
    env = MissionGym("demo", observe_best=True)
    env.reset(seed=4)
    for _ in range(10):
        best, *_ = env.step(np.full(3, EAST))
    for _ in range(10):
        later, *_ = env.step(np.full(3, WEST))
    assert later[-1] <= best[-1]
    assert later[-1] == np.float32(env.core.fields.best_distance_m[0] / env.mission.world.width_m)
    assert env.core.fields.distance_m[0] > env.core.fields.best_distance_m[0]
