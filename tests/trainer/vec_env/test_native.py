"""The batched environment behind SB3's interface lives the same episodes as single environments do."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from stable_baselines3.common.monitor import Monitor

import mission_tui.envs  # noqa: F401 - registers MissionGym
from mission_tui.trainer.failures import EnvError
from mission_tui.trainer.vec_env import InlineVecEnv, NativeVecEnv, savable
from tests.trainer.lanes import lived_alike

LANES = 3


def native() -> NativeVecEnv:
    """Three lanes of the demo mission, seeded and reset."""
    envs = gymnasium.make_vec(
        "MissionGym-v0", LANES, vectorization_mode="vector_entry_point", config="demo", overrides=HURRIED
    )
    return NativeVecEnv(envs)


HURRIED = {"rules": {"time_limit_s": 20.0}}


def inline() -> InlineVecEnv:
    """The same three lanes as single environments under SB3's Monitor."""
    return InlineVecEnv(
        [lambda: Monitor(gymnasium.make("MissionGym-v0", config="demo", overrides=HURRIED, disable_env_checker=True))]
        * LANES
    )


def actions_for(step: int, space: gymnasium.Space[Any]) -> Any:
    """The same pseudo-random actions for both sides."""
    generator = np.random.default_rng(step)
    assert isinstance(space, gymnasium.spaces.MultiDiscrete)
    return generator.integers(0, space.nvec, (LANES, len(space.nvec)))


def test_lanes_live_the_same_episodes_as_single_environments() -> None:
    """Observations, rewards, ends and episode statistics agree over several episodes."""
    batch = native()
    ended = lived_alike(batch, inline(), 5, 250, lambda step: actions_for(step, batch.action_space), abs=1e-4)
    assert len(ended) > 2 * LANES
    assert all(info["outcome"] == info_1["outcome"] for info, info_1 in ended)


def test_its_state_holds_the_unfinished_episodes_too() -> None:
    """Put into another instance, the state continues the trajectories and the running returns."""
    first, second = native(), native()
    first.seed(5)
    first.reset()
    for step in range(7):
        first.step(actions_for(step, first.action_space))
    base = savable(first)
    assert base is not None
    second.set_state(base.get_state())
    for step in range(7, 120):
        actions = actions_for(step, first.action_space)
        (obs, _, _, infos), (obs_2, _, _, infos_2) = first.step(actions), second.step(actions)
        np.testing.assert_array_equal(obs, obs_2)
        episodes = [[info.get("episode", {}).get(key) for key in "rl"] for info in infos]
        assert episodes == [[info.get("episode", {}).get(key) for key in "rl"] for info in infos_2]


class Reused(VectorEnv[Any, Any, Any]):
    """Returns the same arrays at every step, as a fast environment may."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 - Gymnasium's own way

    def __init__(self, breaks: bool = False) -> None:
        self.num_envs, self.render_mode, self.breaks = 2, None, breaks
        self.single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
        self.single_action_space = gymnasium.spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, 2)
        self.action_space = batch_space(self.single_action_space, 2)
        self.values, self.rewards = np.zeros((2, 1), dtype=np.float32), np.zeros(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.values, {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        if self.breaks:
            raise ZeroDivisionError("no more")
        self.values += 1.0
        return self.values, self.rewards, np.zeros(2, dtype=bool), np.zeros(2, dtype=bool), {}


def test_arrays_that_an_environment_reuses_are_copied() -> None:
    """What SB3 keeps from one step is not changed by the next."""
    vec = NativeVecEnv(Reused())
    first = vec.reset()
    second, rewards, _, _ = vec.step(np.zeros(2))
    rewards += 5.0
    vec.step(np.zeros(2))
    assert (np.asarray(first) == 0.0).all()
    assert (np.asarray(second) == 1.0).all()
    assert (vec.step(np.zeros(2))[1] == 0.0).all()


def test_an_environment_that_raises_is_named_by_what_it_raised() -> None:
    """The trainer hears of an environment's failure as one, with the place it came from."""
    with pytest.raises(EnvError, match=r"ZeroDivisionError: no more \(test_native.py:\d+\)"):
        NativeVecEnv(Reused(breaks=True)).step(np.zeros(2))


def test_one_without_a_state_is_not_called_savable() -> None:
    """Only an environment that speaks the protocol can be part of an exact checkpoint."""
    assert savable(NativeVecEnv(Reused())) is None


@pytest.mark.parametrize("number", [LANES - 1, LANES + 1])
def test_a_wrong_number_of_actions_is_the_callers_fault(number: int) -> None:
    """Not the environment's."""
    vec = native()
    vec.reset()
    with pytest.raises(ValueError, match=f"^{number} actions were given for {LANES} environments$"):
        vec.step(np.zeros((number, 2), dtype=np.int64))
