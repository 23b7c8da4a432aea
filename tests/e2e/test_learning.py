"""Trainings from key to policy: what the shipped presets promise, measured by `evaluate` on fresh episodes."""

from __future__ import annotations

import pytest

from tests.shell import Shell

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


def test_demo_learns_to_win_what_chance_does_not(fleet: Shell) -> None:
    """Three tenths of `demo` win at least 80 of 100 episodes; a random policy wins fewer than 20."""
    done = fleet("launch", "demo", "--set", "run.total_timesteps=300_000", "--seed", "1", "--wait", timeout_s=360)
    assert done.returncode == 0, done.stderr
    trained = fleet.json("evaluate", "@last", "--episodes", "100", timeout_s=120)
    chance = fleet.json("evaluate", "@last", "--episodes", "100", "--random", timeout_s=120)
    assert trained["won"] >= 0.8, trained["outcomes"]
    assert chance["won"] < 0.2, chance["outcomes"]


def test_cartpole_is_solved_with_the_zoo_settings(fleet: Shell) -> None:
    """The preset `cartpole` reaches a mean of at least 475 over 100 episodes."""
    done = fleet("launch", "cartpole", "--seed", "1", "--wait", timeout_s=360)
    assert done.returncode == 0, done.stderr
    assert fleet.json("evaluate", "@last", "--episodes", "100", timeout_s=120)["mean"] >= 475.0
