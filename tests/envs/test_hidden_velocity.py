"""The wrapper that hides velocities shows everything else, and its environment can still be saved."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from mission_tui.envs import can_save_state, restore_env_state, save_env_state
from mission_tui.envs.hidden_velocity import HiddenVelocity


@pytest.mark.parametrize(
    ("env_id", "hidden"),
    [
        ("CartPole-v1", [1, 3]),
        ("Acrobot-v1", [4, 5]),
        ("MountainCar-v0", [1]),
        ("MountainCarContinuous-v0", [1]),
        ("Pendulum-v1", [2]),
    ],
)
def test_velocities_read_zero_and_nothing_else_does(env_id: str, hidden: list[int]) -> None:
    """Step by step beside the bare environment; a saved state goes on exactly."""
    bare, shown = gymnasium.make(env_id), HiddenVelocity(gymnasium.make(env_id))
    bare.action_space.seed(1)
    pairs: list[tuple[Any, Any]] = [(bare.reset(seed=2)[0], shown.reset(seed=2)[0])]
    for _ in range(5):
        action = bare.action_space.sample()
        pairs.append((bare.step(action)[0], shown.step(action)[0]))
    for there, here in pairs:
        assert not here[hidden].any()
        np.testing.assert_array_equal(np.delete(here, hidden), np.delete(there, hidden))
    assert any(there[hidden].all() for there, _ in pairs)
    assert shown.observation_space.contains(pairs[-1][1])
    assert can_save_state(shown)
    state, action = save_env_state(shown), bare.action_space.sample()
    first = shown.step(action)[0]
    restore_env_state(shown, state)
    np.testing.assert_array_equal(shown.step(action)[0], first)


def test_an_unknown_task_is_named() -> None:
    """Guessing which numbers are velocities would hide others."""
    with pytest.raises(ValueError, match="the velocities of MissionGym are not known; known are CartPole"):
        HiddenVelocity(gymnasium.make("MissionGym-v0"))
