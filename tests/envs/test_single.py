"""The single environment: registration, spaces, checkers, arguments, and what a step may not do."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3

from mission_tui.envs import MissionGym
from mission_tui.errors import PresetError


@pytest.mark.parametrize(("config", "size"), [("standard", 42), ("demo", 32)])
def test_passes_both_checkers_without_a_warning(config: str, size: int) -> None:
    """Gymnasium's and SB3's checkers accept it silently; the observation has ten values per attacker and two more."""
    env = gymnasium.make("MissionGym-v0", config=config, render_mode="ansi").unwrapped
    assert env.observation_space.shape == (size,)
    check_env(env)
    check_env_for_sb3(env)


def test_make_knows_it_with_its_arguments() -> None:
    """`gymnasium.make` passes config, shaping, observe_best and overrides; the best distance is a 43rd value."""
    env = gymnasium.make(
        "MissionGym-v0", shaping="one_way", observe_best=True, overrides={"rewards": {"step_cost": 0.5}}
    )
    assert env.observation_space.shape == (43,)
    env.reset(seed=0)
    _, reward, *_ = env.step(np.zeros(4, dtype=np.int64))
    assert reward == -0.5


def test_reset_with_the_same_seed_repeats_and_without_one_goes_on() -> None:
    """A seed fixes the episode; resetting without one draws the next."""
    env = MissionGym("demo")
    first, _ = env.reset(seed=3)
    second, _ = env.reset()
    assert np.array_equal(env.reset(seed=3)[0], first)
    assert not np.array_equal(first, second)


def test_step_needs_a_running_episode() -> None:
    """Stepping before the first reset or after the final step is refused."""
    env = MissionGym("demo", overrides={"rules": {"time_limit_s": 0.25}})
    hold = np.zeros(3, dtype=np.int64)
    with pytest.raises(ResetNeeded):
        env.step(hold)
    env.reset(seed=0)
    assert env.step(hold)[3]
    with pytest.raises(ResetNeeded):
        env.step(hold)


@pytest.mark.parametrize("action", [[0, 0, 9], [0, 0, -1], [0, 0]])
def test_actions_outside_the_space_are_refused(action: list[int]) -> None:
    """A heading that does not exist, or a missing one, is an error and not some other move."""
    env = MissionGym("demo")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="actions must"):
        env.step(np.array(action))


@pytest.mark.slow
def test_observations_stay_in_bounds_and_belong_to_the_caller() -> None:
    """Every value lies in [-1, 1] through a whole episode, and later steps do not change earlier observations."""
    env = MissionGym("standard", observe_best=True)
    observation, _ = env.reset(seed=2)
    env.action_space.seed(0)
    done = False
    while not done:
        kept = observation.copy()
        following, _, terminated, truncated, _ = env.step(env.action_space.sample())
        assert np.array_equal(kept, observation)
        assert env.observation_space.contains(following)
        observation, done = following, terminated or truncated


def test_unknown_shaping_is_refused() -> None:
    """A misspelt shaping is an error that names the right ones."""
    with pytest.raises(PresetError, match="best_so_far"):
        MissionGym(overrides={"rewards": {"shaping": "best"}})


def test_importing_the_room_stays_light() -> None:
    """A fresh interpreter that imports the room has loaded neither torch nor SB3 nor a drawing library."""
    heavy = "{'torch', 'stable_baselines3', 'pygame', 'matplotlib'}"
    code = f"import sys, mission_tui.envs; print(*{heavy} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""
