"""How `env.vec = "auto"` decides, and what is refused."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
from stable_baselines3.common.vec_env import VecNormalize

from mission_tui.errors import PresetError
from mission_tui.fleet.spec import EnvSpec, Spec
from mission_tui.trainer.failures import EnvError
from mission_tui.trainer.vec_env import InlineVecEnv, NativeVecEnv, WorkersVecEnv, build_vec_env
from mission_tui.trainer.vec_env.choosing import cheaper, choose_kind, step_seconds
from mission_tui.trainer.vec_env.making import EnvMaker
from tests.trainer.harness import PROBES, spec_with


def kind_of(spec: Spec) -> tuple[str, str]:
    """What auto chooses for `spec`, and why."""
    return choose_kind(spec.env, EnvMaker(spec.env, None))


def test_a_same_step_batch_is_native() -> None:
    """MissionGym has one."""
    kind, reason = kind_of(spec_with(env={"id": "MissionGym-v0"}))
    assert kind == "native"
    assert "same-step" in reason


def test_cheap_environments_stay_inline() -> None:
    """Gymnasium's batched CartPole resets a step later, so it is not used; a single one is too cheap for a pipe."""
    kind, reason = kind_of(spec_with(env={"id": "CartPole-v1", "vec": "auto"}))
    assert kind == "inline"
    assert "us" in reason


@pytest.mark.parametrize(
    ("n_envs", "step_s", "n_workers", "cores", "kind"),
    [
        (8, 20e-6, 2, 2, "inline"),
        (32, 7e-6, 2, 2, "inline"),
        (32, 33e-6, 2, 2, "workers"),
        (8, 5e-3, 2, 2, "workers"),
        (64, 5e-3, 4, 4, "workers"),
        (64, 5e-3, 4, 1, "inline"),
        (1, 1.0, 1, 8, "inline"),
    ],
    ids=["cheap", "CartPole", "LunarLander", "dear", "dear and many", "no core for them", "nothing to share"],
)
def test_workers_must_pay_for_their_hand_over(
    n_envs: int, step_s: float, n_workers: int, cores: int, kind: str
) -> None:
    """Workers are chosen where they save time and there are cores for them; the sentence holds both times."""
    chosen, reason = cheaper(n_envs, step_s, n_workers, cores)
    assert chosen == kind
    assert n_envs == 1 or re.search(r"one step takes .* us; .* on \d+ workers take .* ms, inline .* ms", reason)


def test_a_slow_environment_goes_to_as_many_workers_as_there_are_cores() -> None:
    """A step of 10 ms is worth a worker a core, and the measure finds it."""
    spec = spec_with(env={"id": "Slow-v0", "vec": "auto", "n_envs": 8, "imports": ["tests.trainer.worker_envs"]})
    cores = len(os.sched_getaffinity(0))
    built = build_vec_env(spec, None)
    built.vec.close()
    assert built.kind == ("workers" if cores > 1 else "inline")
    assert len(built.worker_pids) == (min(8, cores) if cores > 1 else 0)


def test_the_measured_step_is_a_time() -> None:
    """A CartPole step takes between a microsecond and a few milliseconds anywhere."""
    assert 1e-6 < step_seconds(EnvMaker(EnvSpec(id="CartPole-v1"), None)) < 1e-2


def test_work_is_measured_in_processor_time_and_waiting_by_the_clock() -> None:
    """Ten milliseconds of work stay ten on a busy machine; a wait for a simulator counts although nothing is done."""
    slow, waiting = (EnvSpec(id=id_, imports=("tests.trainer.worker_envs",)) for id_ in ("Slow-v0", "Waiting-v0"))
    assert 9e-3 < step_seconds(EnvMaker(slow, None)) < 13e-3
    assert step_seconds(EnvMaker(waiting, None)) >= 5e-3


def test_a_kept_kind_wins_over_measuring() -> None:
    """A later attempt runs as the first one did."""
    built = build_vec_env(spec_with(env={"vec": "auto", "id": "MissionGym-v0", "config": "demo"}), None, "inline")
    assert isinstance(built.vec, InlineVecEnv)
    assert built.reason == "as in the attempt before"


def test_native_builds_all_lanes_in_one() -> None:
    """Asked for, the batched form is used, with the normaliser around it and PPO's gamma in it."""
    spec = spec_with(
        env={"id": "MissionGym-v0", "vec": "native", "n_envs": 5, "normalize": {"reward": False}}, ppo={"gamma": 0.9}
    )
    built = build_vec_env(spec, None)
    assert isinstance(built.vec, VecNormalize)
    assert isinstance(built.vec.unwrapped, NativeVecEnv)
    assert (built.vec.num_envs, built.vec.gamma, built.vec.norm_reward) == (5, 0.9, False)


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({"id": "CartPole-v1", "vec": "native"}, "autoreset mode NextStep"),
        ({"id": "Acrobot-v1", "vec": "native"}, "has no batched form"),
        ({"id": "MissionGym-v0", "vec": "native", "wrappers": ["gymnasium.wrappers:ClipReward"]}, "wrap single"),
        ({"id": "CartPole-v1", "wrappers": ["gymnasium.wrappers:Nothing"]}, "has no 'Nothing'"),
        ({"id": "CartPole-v1", "wrappers": ["gymnasium.wrappers.ClipReward"]}, "must look like"),
        ({"id": "CartPole-v1", "kwargs": {"gravity": 3}}, "env.kwargs does not fit 'CartPole-v1'"),
        ({"id": "CartPole-v1", "config": "demo"}, "env.kwargs"),
        ({"id": "MissionGym-v0", "kwargs": {"config": "demo"}}, "write it as env.config"),
        ({"id": "CartPol-v1"}, "did you mean 'CartPole-v1'"),
        ({"id": "nowhere:CartPole-v1"}, "module 'nowhere' cannot be imported"),
        ({"id": "MissionGym-v0", "config": "nowhere"}, "neither a folder nor one of"),
    ],
)
def test_what_cannot_be_built_is_refused_in_a_sentence(env: dict[str, object], sentence: str) -> None:
    """The sentence names the key and what would do."""
    with pytest.raises(PresetError, match=sentence):
        build_vec_env(spec_with(env=env), None)


def test_wrappers_go_around_the_monitor() -> None:
    """Returns are those of the task: a wrapper that doubles rewards doubles what is learned from, not what is shown."""
    spec = spec_with(env={"id": "Walk-v0", "n_envs": 1, "wrappers": ["tests.trainer.probe_envs:Doubled"], **PROBES})
    vec = build_vec_env(spec, None).vec
    vec.reset()
    steps = [vec.step(vec.action_space.sample()[None]) for _ in range(10)]
    assert steps[-1][3][0]["episode"]["r"] == 10.0
    assert sum(float(rewards[0]) for _, rewards, _, _ in steps) == 20.0


def test_environments_can_live_in_worker_processes() -> None:
    """Workers step, and closing ends every process."""
    spec = spec_with(env={"id": "Walk-v0", "vec": "workers", **PROBES})
    built = build_vec_env(spec, None)
    assert isinstance(built.vec, WorkersVecEnv)
    assert len(built.worker_pids) == 2
    built.vec.reset()
    assert built.vec.step(np.zeros(2))[1].tolist() == [1.0, 1.0]
    built.vec.close()
    assert not built.vec.any_alive()


def test_a_worker_that_dies_is_named() -> None:
    """Which worker and how it died is said, and closing does not wait for its answer."""
    spec = spec_with(env={"id": "Dying-v0", "vec": "workers", "n_envs": 1, **PROBES})
    vec = build_vec_env(spec, None).vec
    vec.reset()
    for _ in range(3):
        vec.step(np.zeros(1))
    with pytest.raises(EnvError, match=r"env worker 0 died \(signal 9\)"):
        vec.step(np.zeros(1))
    vec.close()
