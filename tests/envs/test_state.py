"""Saving and restoring: a restored environment lives the same future, bit for bit, and mistakes are refused."""

from __future__ import annotations

import io
import json
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import FrameStackObservation
from stable_baselines3.common.monitor import Monitor

from mission_tui.envs import (
    MissionGym,
    MissionGymVector,
    State,
    StatefulEnv,
    can_save_state,
    restore_env_state,
    save_env_state,
)
from mission_tui.errors import CheckpointError
from tests.envs.scripted import mixture

CLASSIC = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]


def through_files(state: State) -> State:
    """The state after a trip through JSON and an npz archive that allows no pickle."""
    arrays: dict[str, Any] = {}

    def split(value: Any, key: str) -> Any:
        if isinstance(value, np.ndarray):
            arrays[key] = value
            return {"array": key}
        if isinstance(value, dict):
            return {name: split(item, f"{key}/{name}") for name, item in value.items()}
        if isinstance(value, list):
            return [split(item, f"{key}/{i}") for i, item in enumerate(value)]
        return value

    def join(value: Any) -> Any:
        if isinstance(value, dict):
            return archive[value["array"]] if value.keys() == {"array"} else {k: join(v) for k, v in value.items()}
        return [join(item) for item in value] if isinstance(value, list) else value

    text = json.dumps(split(state, "state"))
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        restored: State = join(json.loads(text))
    return restored


def future(env: Any, steps: int) -> list[tuple[Any, ...]]:
    """What the environment does next under its own action space's samples, resets included; wall times left out."""
    seen: list[tuple[Any, ...]] = []
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        info.get("episode", {}).pop("t", None)
        seen.append((np.array(observation).tobytes(), float(reward), terminated, truncated, info))
        if terminated or truncated:
            seen.append((env.reset()[0].tobytes(),))
    return seen


def build(env_id: str) -> Any:
    arguments: dict[str, Any] = {}
    if env_id == "MissionGym-v0":
        arguments = {"config": "demo", "overrides": {"rules": {"stall_s": 5}}}
    return Monitor(gymnasium.make(env_id, **arguments))


@pytest.mark.parametrize("env_id", ["MissionGym-v0", *CLASSIC])
def test_a_restored_environment_has_the_same_future(env_id: str) -> None:
    """Saved in mid-episode, written to files and restored into a new instance, it repeats what the original does."""
    original, copy = build(env_id), build(env_id)
    assert can_save_state(original)
    original.reset(seed=5)
    original.action_space.seed(6)
    future(original, 230)
    state = through_files(save_env_state(original))
    expected = future(original, 450)
    restore_env_state(copy, state)
    assert future(copy, 450) == expected
    assert copy.get_episode_rewards() == original.get_episode_rewards()
    assert copy.get_total_steps() == original.get_total_steps() == 680


def test_a_saved_state_does_not_change_with_the_environment() -> None:
    """The state is a copy: stepping on leaves it alone, and restoring twice gives the same future twice."""
    env = build("MissionGym-v0")
    env.reset(seed=5)
    env.action_space.seed(6)
    state = save_env_state(env)
    first = future(env, 60)
    restore_env_state(env, state)
    assert future(env, 60) == first


@pytest.mark.parametrize("lanes", [1, 3, 32])
def test_a_restored_vector_has_the_same_future(lanes: int) -> None:
    """All lanes, wherever they are in their episodes, go on bit-identically, autoresets included."""
    overrides = {"rules": {"stall_s": 5}}
    original = MissionGymVector(lanes, "demo", overrides=overrides)
    original.reset(seed=1)
    policy = mixture(np.random.default_rng(8))
    for _ in range(37):
        original.step(policy(original.core))
    state = through_files(original.get_state())
    copy = MissionGymVector(lanes, "demo", overrides=overrides)
    copy.set_state(state)
    endings = 0
    for _ in range(120):
        actions = policy(original.core)
        ours: tuple[Any, ...] = original.step(actions)
        theirs: tuple[Any, ...] = copy.step(actions)
        endings += int((ours[2] | ours[3]).sum())
        for mine, restored in zip(ours[:4], theirs[:4], strict=True):
            assert np.array_equal(mine, restored)
    assert endings >= lanes


def test_vector_and_single_share_the_state_of_a_lane() -> None:
    """Both forms speak the protocol, and a vector of one lane and a single environment exchange states."""
    single, batch = MissionGym("demo"), MissionGymVector(1, "demo")
    assert isinstance(single, StatefulEnv)
    assert isinstance(batch, StatefulEnv)
    single.reset(seed=9)
    batch.set_state(single.get_state())
    action = np.array([1, 2, 3])
    assert np.array_equal(single.step(action)[0], batch.step(action[None])[0][0])


def test_the_generator_moves_with_the_state() -> None:
    """A restored single environment draws its next episode from the restored generator, not from its own."""
    first, second = MissionGym("demo"), MissionGym("demo")
    first.reset(seed=1)
    second.reset(seed=2)
    second.set_state(first.get_state())
    assert np.array_equal(first.reset()[0], second.reset()[0])


def test_unknown_environments_and_wrappers_are_not_saved_by_halves() -> None:
    """A wrapper that keeps something unknown makes the whole environment unsaveable, with a clear error."""
    env = FrameStackObservation(gymnasium.make("CartPole-v1"), 2)
    env.reset(seed=0)
    assert not can_save_state(env)
    with pytest.raises(CheckpointError, match="cannot be saved"):
        save_env_state(env)


def test_a_state_that_does_not_fit_is_refused() -> None:
    """Another number of lanes, other wrappers or another generator format are errors, not silent damage."""
    state = MissionGymVector(2, "demo").get_state()
    with pytest.raises(CheckpointError, match=r"'x' must be float64\[3, 3\], found float64\[3, 2\]"):
        MissionGymVector(3, "demo").set_state(state)
    saved = save_env_state(MissionGym("demo"))
    with pytest.raises(CheckpointError, match="wrappers"):
        restore_env_state(build("MissionGym-v0"), saved)
    saved["env"]["generators"] = saved["env"]["generators"].astype(np.int64)
    with pytest.raises(CheckpointError, match="6 words"):
        restore_env_state(MissionGym("demo"), saved)
