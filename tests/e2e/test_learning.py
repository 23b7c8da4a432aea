"""A training from key to policy, measured by `evaluate` on fresh episodes; `make zoo` has the presets of the zoo."""

from __future__ import annotations

import pytest

from tests.shell import Shell

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


def test_standard_learns_to_win_the_whole_mission(shared_fleet: Shell) -> None:
    """Two fifths of `standard` win at least 60 of 100 episodes; a random policy wins fewer than 5."""
    done = shared_fleet(
        "launch", "standard", "--set", "run.total_timesteps=800_000", "--seed", "1", "--wait", timeout_s=360
    )
    assert done.returncode == 0, done.stderr
    trained = shared_fleet.json("evaluate", "@last", "--episodes", "100", timeout_s=120)
    chance = shared_fleet.json("evaluate", "@last", "--episodes", "100", "--random", timeout_s=120)
    assert trained["won"] >= 0.6, trained["outcomes"]
    assert chance["won"] < 0.05, chance["outcomes"]


def test_demo_learns_to_win_what_chance_does_not(shared_fleet: Shell) -> None:
    """Three tenths of `demo` win at least 80 of 100 episodes; a random policy wins fewer than 20."""
    done = shared_fleet(
        "launch", "demo", "--set", "run.total_timesteps=300_000", "--seed", "1", "--wait", timeout_s=360
    )
    assert done.returncode == 0, done.stderr
    trained = shared_fleet.json("evaluate", "@last", "--episodes", "100", timeout_s=120)
    chance = shared_fleet.json("evaluate", "@last", "--episodes", "100", "--random", timeout_s=120)
    assert trained["won"] >= 0.8, trained["outcomes"]
    assert chance["won"] < 0.2, chance["outcomes"]
