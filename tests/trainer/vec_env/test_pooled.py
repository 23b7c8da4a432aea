"""envpool's tasks through our adapter: every step is a transition of the task, and lanes live what single ones live."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from mission_tui.errors import PresetError
from mission_tui.trainer.named_parts import gym_id, native_refusal
from mission_tui.trainer.vec_env import BuiltEnvs, NativeVecEnv, WorkersVecEnv, build_vec_env, savable
from tests.trainer.harness import new_run, run_attempt, spec_with, stop_in
from tests.trainer.lanes import lived_alike

LANES = 4
needs_envpool = pytest.mark.skipif(
    importlib.util.find_spec("envpool") is None, reason="the `fast-envs` extra is not installed"
)


def built(task: str, **env: Any) -> BuiltEnvs:
    """Four lanes of a task as a preset asks for them."""
    return build_vec_env(spec_with(env={"id": f"envpool:{task}", "vec": "auto", "n_envs": LANES, **env}), None)


def single(task: str) -> VecEnv:
    """The same lanes as single environments in SB3's own `DummyVecEnv`."""
    return DummyVecEnv([lambda: Monitor(gymnasium.make(gym_id(f"envpool:{task}")))] * LANES)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without envpool the sentence is the line that installs it."""
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(PresetError, match=r"needs the `fast-envs` extra; in the folder of mission-tui: pip install "):
        built("CartPole-v1")


def test_its_names_are_not_taken_for_gymnasiums() -> None:
    """Both have a CartPole-v1; in any process the id means the one that was asked for."""
    assert gym_id("envpool:CartPole-v1") == "mission_tui.envs.pooled:envpool/CartPole-v1"
    assert gym_id("envpool:phys2d/CartPole-v1").endswith(":envpool/phys2d.CartPole-v1")
    assert gym_id("CartPole-v1") == "CartPole-v1"
    assert gym_id("mine:CartPole-v1") == "mine:CartPole-v1"


@needs_envpool
@pytest.mark.parametrize("vec", ["auto", "native"])
def test_preflight_sees_its_spaces(vec: str) -> None:
    """By the short process that the supervisor asks, without torch; nothing is answered by heart."""
    spec = {"preset": "p", "env": {"id": "envpool:CartPole-v1", "vec": vec}}
    done = subprocess.run(
        [sys.executable, "-m", "mission_tui.trainer.checking.preflight"],
        input=json.dumps(spec),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {"ok": True, "obs": "Box(4,)", "act": "Discrete(2)"}


@needs_envpool
def test_an_unknown_task_is_refused_with_the_nearest() -> None:
    """Of envpool's own."""
    with pytest.raises(PresetError, match="CartPole-v1"):
        built("CartPol-v1")
    with pytest.raises(PresetError, match=r"env\.kwargs does not fit 'envpool:CartPole-v1'"):
        built("CartPole-v1", kwargs={"bogus": 1})


@needs_envpool
@pytest.mark.parametrize(("task", "steps"), [("CartPole-v1", 300), ("Pendulum-v1", 450)])
def test_lanes_live_what_single_environments_live(task: str, steps: int) -> None:
    """Under SB3's `DummyVecEnv`, bit for bit: observations, rewards, ends, last observations, limits, statistics."""
    batch = built(task).vec
    assert isinstance(batch, NativeVecEnv)
    batch.action_space.seed(3)

    def choose(_step: int) -> Any:
        return np.array([batch.action_space.sample() for _ in range(LANES)])

    ended = lived_alike(batch, single(task), 7, steps, choose, rel=1e-5)
    assert len(ended) >= 2 * LANES
    assert all(info["TimeLimit.truncated"] == (task == "Pendulum-v1") for info, _ in ended)
    batch.close()


@needs_envpool
def test_every_transition_obeys_the_physics() -> None:
    """None is a reset in disguise: after each end the next action acts, by Gymnasium's own CartPole."""
    vec = built("CartPole-v1").vec
    physics: Any = CartPoleEnv()
    physics.reset()
    vec.seed(1)
    before, ended = np.asarray(vec.reset()), 0
    vec.action_space.seed(1)
    for _ in range(200):
        actions = np.array([vec.action_space.sample() for _ in range(LANES)])
        after, rewards, dones, infos = vec.step(actions)
        assert (rewards == 1.0).all()
        for lane in range(LANES):
            physics.state, physics.steps_beyond_terminated = before[lane].astype(np.float64), None
            expected, _, terminated, _, _ = physics.step(int(actions[lane]))
            reached = infos[lane]["terminal_observation"] if dones[lane] else np.asarray(after)[lane]
            np.testing.assert_allclose(reached, expected, atol=1e-5)
            assert terminated == dones[lane]
        ended += int(dones.sum())
        before = np.asarray(after)
    assert ended > LANES


@needs_envpool
def test_seeds_are_settled_lane_by_lane() -> None:
    """The same seed repeats, another does not, and lane 1 of seed 5 is lane 0 of seed 6."""
    vec = built("CartPole-v1").vec

    def first(seed: int) -> Any:
        vec.seed(seed)
        return np.asarray(vec.reset())

    five, six = first(5), first(6)
    np.testing.assert_array_equal(first(5), five)
    np.testing.assert_array_equal(five[1:], six[:-1])
    assert not np.array_equal(five, six)
    np.testing.assert_array_equal(first(2**31 - 1)[1:], first(0)[:-1])


@needs_envpool
def test_wrappers_take_single_environments_into_workers() -> None:
    """The batched form cannot be wrapped; workers find the task by the same name, and not Gymnasium's."""
    spec = spec_with(env={"id": "envpool:CartPole-v1", "wrappers": ["gymnasium.wrappers:ClipReward"]})
    assert native_refusal(spec.env) == "env.wrappers wrap single environments"
    vec = built("CartPole-v1", vec="workers", n_workers=2).vec
    assert isinstance(vec, WorkersVecEnv)
    batch = built("CartPole-v1").vec
    for each in (vec, batch):
        each.seed(9)
    np.testing.assert_array_equal(vec.reset(), batch.reset())
    vec.close()


@needs_envpool
def test_a_run_trains_on_it_and_goes_on(tmp_path: Path) -> None:
    """Its state cannot be kept: a resume is called continued, never exact."""
    spec = spec_with(env={"id": "envpool:CartPole-v1", "vec": "auto", "n_envs": 2, "normalize": True})
    run_dir = new_run(tmp_path / "run", spec)
    first = run_attempt(run_dir, hook=stop_in("rollout", 3))
    assert savable(built("CartPole-v1").vec) is None
    second = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert second.exit_code == 0
    assert not second.started().exact
    assert second.updates()[-1].update == 6
