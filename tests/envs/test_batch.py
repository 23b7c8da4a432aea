"""The vector form: lane i equals the single environment, and Gymnasium's own vectoriser, bit for bit."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from mission_tui.envs import MissionGym, MissionGymVector
from tests.envs.scripted import mixture

SHORT: dict[str, dict[str, Any]] = {
    "standard": {
        "rules": {"stall_s": 6, "time_limit_s": 40},
        "world": {"spawn": {"low_m": [124, 60], "high_m": [125.5, 140]}},
    },
    "demo": {"rules": {"stall_s": 6, "time_limit_s": 12}},
}


def vector(config: str, lanes: int) -> MissionGymVector:
    env = gymnasium.make_vec(
        "MissionGym-v0", lanes, "vector_entry_point", config=config, observe_best=True, overrides=SHORT[config]
    )
    assert isinstance(env, MissionGymVector)
    return env


@pytest.mark.slow
@pytest.mark.parametrize("config", ["standard", "demo"])
@pytest.mark.parametrize("lanes", [1, 3, 10])
def test_lanes_equal_single_environments(config: str, lanes: int) -> None:
    """Lane i reset with seed s lives the same episodes as a single environment reset with seed s + i."""
    batch = vector(config, lanes)
    singles = [MissionGym(config, observe_best=True, overrides=SHORT[config]) for _ in range(lanes)]
    observations, _ = batch.reset(seed=7)
    for lane, single in enumerate(singles):
        assert np.array_equal(single.reset(seed=7 + lane)[0], observations[lane])
    policy = mixture(np.random.default_rng(3))
    episodes = 0
    for _ in range(250):
        actions = policy(batch.core)
        observations, rewards, terminated, truncated, infos = batch.step(actions)
        for lane, single in enumerate(singles):
            observation, reward, ended, cut, info = single.step(actions[lane])
            assert (reward, ended, cut) == (rewards[lane], terminated[lane], truncated[lane])
            if ended or cut:
                episodes += 1
                assert np.array_equal(infos["final_obs"][lane], observation)
                assert {key: infos["final_info"][key][lane] for key in info} == info
                observation, _ = single.reset()
            assert np.array_equal(observation, observations[lane])
    assert episodes >= 3 * lanes


def test_equals_gymnasiums_synchronous_vectoriser() -> None:
    """Everything a step returns, masks included, is what SyncVectorEnv returns for the same seed and actions."""
    batch = vector("demo", 5)
    sync: VectorEnv[Any, Any, Any] = SyncVectorEnv(
        [lambda: MissionGym("demo", observe_best=True, overrides=SHORT["demo"])] * 5,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    assert np.array_equal(batch.reset(seed=11)[0], sync.reset(seed=11)[0])
    assert batch.observation_space == sync.observation_space
    assert batch.action_space == sync.action_space
    policy = mixture(np.random.default_rng(4))
    endings = 0
    for _ in range(150):
        actions = policy(batch.core)
        ours, theirs = batch.step(actions), sync.step(actions)
        for mine, reference in zip(ours[:4], theirs[:4], strict=True):
            assert np.array_equal(np.asarray(mine), np.asarray(reference))
        assert ours[4].keys() == theirs[4].keys()
        if "final_info" in ours[4]:
            endings += 1
            assert ours[4]["final_info"].keys() == theirs[4]["final_info"].keys()
            for key, values in ours[4]["final_info"].items():
                assert np.array_equal(values, theirs[4]["final_info"][key])
    assert endings > 5
    sync.close()


@pytest.mark.parametrize("lanes", [1, 2, 7, 64, 257])
def test_a_lane_does_not_depend_on_its_neighbours(lanes: int) -> None:
    """The first lanes of batches of different sizes stay bit-equal, so no number depends on the batch size."""
    small, large = vector("standard", lanes), vector("standard", 258)
    small.reset(seed=0)
    large.reset(seed=0)
    policy = mixture(np.random.default_rng(5))
    for _ in range(60):
        actions = policy(large.core)
        mine, theirs = small.step(actions[:lanes]), large.step(actions)
        assert np.array_equal(mine[0], theirs[0][:lanes])
        assert np.array_equal(mine[1], theirs[1][:lanes])


@pytest.mark.parametrize("lanes", [1, 200])
def test_nobody_is_tagged_where_guards_do_not_look(lanes: int) -> None:
    """Looking for contact only where two units can meet within the decision gives what looking everywhere gives."""
    env, thorough = vector("standard", lanes), vector("standard", lanes)
    thorough.core._guards._risk_m = float("inf")
    env.reset(seed=2)
    thorough.reset(seed=2)
    policy = mixture(np.random.default_rng(6))
    for _ in range(200):
        actions = policy(env.core)
        assert np.array_equal(env.step(actions)[0], thorough.step(actions)[0])
        assert np.array_equal(env.core.fields.armour, thorough.core.fields.armour)
    assert not env.core.fields.alive.all()


def test_reset_accepts_a_seed_per_lane_and_continues_without_one() -> None:
    """A list seeds each lane; None goes on with the lane's generator instead of repeating its episode."""
    env = vector("demo", 2)
    first, _ = env.reset(seed=[5, 9])
    assert np.array_equal(first[1], env.reset(seed=[None, 9])[0][1])
    assert not np.array_equal(first[0], env.reset()[0][0])
    with pytest.raises(ValueError, match="one entry for each of 2"):
        env.reset(seed=[1])


def test_each_lanes_generator_and_seed_are_those_of_a_single_environment() -> None:
    """As Gymnasium's own vectoriser has them: one a lane, also where a lane was seeded by itself or made anew."""
    batch = MissionGymVector(3, "demo")
    assert len(set(batch.np_random_seed)) == 3
    batch.reset(seed=7)
    assert batch.np_random_seed == (7, 8, 9)
    assert [generator.bit_generator.state for generator in batch.np_random] == [
        generator.bit_generator.state for generator in batch.core.generators
    ]
    batch.reset(seed=[None, 100, None])
    assert batch.np_random_seed == (7, 100, 9)
    batch.set_state(batch.get_state())
    assert batch.np_random_seed == (-1, -1, -1)


def test_a_reset_mask_leaves_the_other_lanes_where_they_are() -> None:
    """Lanes of the mask begin an episode, with their seeds; of the others neither observation nor generator changes."""
    batch = MissionGymVector(3, "demo")
    batch.reset(seed=1)
    before, *_ = batch.step(batch.action_space.sample())
    states = [generator.bit_generator.state for generator in batch.np_random]
    after, _ = batch.reset(seed=[50, 60, 70], options={"reset_mask": np.array([False, True, False])})
    fresh, _ = MissionGymVector(1, "demo").reset(seed=60)
    np.testing.assert_array_equal(after[[0, 2]], before[[0, 2]])
    np.testing.assert_array_equal(after[1], fresh[0])
    assert batch.np_random_seed == (1, 60, 3)
    assert [generator.bit_generator.state for generator in batch.np_random][::2] == states[::2]


@pytest.mark.parametrize("mask", [np.ones(2, dtype=bool), np.zeros(3, dtype=bool), np.ones(3)], ids=str)
def test_a_reset_mask_of_another_form_is_refused(mask: NDArray[Any]) -> None:
    """And nothing is reset."""
    batch = MissionGymVector(3, "demo")
    batch.reset(seed=1)
    with pytest.raises(ValueError, match="must hold 3 booleans, at least one of them true"):
        batch.reset(seed=5, options={"reset_mask": mask})
    assert batch.np_random_seed == (1, 2, 3)


def test_autoreset_mode_is_declared() -> None:
    """The metadata tells a trainer that episodes are reset in the step that ends them."""
    assert vector("demo", 1).metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
