"""How `env.vec = "auto"` decides, and what is refused."""

from __future__ import annotations

import os
import re
import threading
from typing import Any, Literal

import gymnasium
import numpy as np
import psutil
import pytest
from stable_baselines3.common.vec_env import VecNormalize

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.spec import EnvSpec, Spec
from mission_tui.trainer.failures import EnvError
from mission_tui.trainer.vec_env import InlineVecEnv, NativeVecEnv, WorkersVecEnv, build_vec_env
from mission_tui.trainer.vec_env.build import Choice, EnvMaker, StepCost, cheapest, choose, step_cost
from tests.trainer.harness import PROBES, spec_with
from tests.trainer.probe_envs import Walk

WORKER_ENVS = {"imports": ["tests.trainer.worker_envs"]}
CORES = len(os.sched_getaffinity(0))


def choice_of(spec: Spec) -> Choice:
    """What is chosen for `spec`, and why."""
    return choose(spec.env, EnvMaker(spec.env, None), CORES)


def chosen(n_envs: int, step_s: float, cores: int, work_s: float | None = None, **env: object) -> Choice:
    """What is chosen for `n_envs` environments with a step of `step_s`, of which `work_s` are work (default: all)."""
    spec = spec_with(env={"id": "CartPole-v1", "vec": "auto", "n_envs": n_envs, **env})
    return cheapest(spec.env, StepCost(step_s, step_s if work_s is None else work_s), cores)


def test_a_same_step_batch_is_native() -> None:
    """MissionGym has one."""
    choice = choice_of(spec_with(env={"id": "MissionGym-v0", "vec": "auto"}))
    assert choice.kind == "native"
    assert "same-step" in choice.reason


def test_cheap_environments_stay_inline() -> None:
    """Gymnasium's batched CartPole resets a step later, so it is not used; a single one is too cheap for a pipe."""
    choice = choice_of(spec_with(env={"id": "CartPole-v1", "vec": "auto"}))
    assert choice.kind == "inline"
    assert "us" in choice.reason


@pytest.mark.parametrize(
    ("n_envs", "step_s", "cores", "n_workers"),
    [
        (8, 10e-6, 2, None),
        (16, 7e-6, 2, None),
        (32, 33e-6, 2, 1),
        (8, 5e-3, 2, 1),
        (64, 5e-3, 4, 3),
        (64, 10e-3, 16, 15),
        (48, 10e-3, 32, 23),
    ],
    ids=["cheap", "CartPole", "LunarLander", "dear", "dear and many", "16 cores", "even shares"],
)
def test_workers_must_pay_for_their_hand_over(n_envs: int, step_s: float, cores: int, n_workers: int | None) -> None:
    """The trainer shares its work with as many workers as save time, no more processes than cores; the sentence holds
    both times.
    """
    choice = chosen(n_envs, step_s, cores)
    assert (choice.kind, choice.n_workers) == ("split" if n_workers else "inline", n_workers)
    assert re.search(r"one step takes .* us; .* split with \d+ worker\(s\) take .* ms, inline .* ms", choice.reason)


def test_one_core_is_not_shared() -> None:
    """Who waits for it would only be further away."""
    assert chosen(64, 5e-3, 1) == Choice("inline", None, "one step takes 5,000 us, on 1 core(s)")
    assert chosen(64, 5e-3, 1, vec="split").kind == "inline"


@pytest.mark.parametrize(("vec", "n_workers"), [("auto", None), ("split", None), ("workers", 1)])
def test_a_single_environment_is_not_measured(vec: str, n_workers: int | None) -> None:
    """There is nothing to share; one that would kill who measures it is left to its worker."""
    choice = choice_of(spec_with(env={"id": "Dying-v0", "vec": vec, "n_envs": 1, **PROBES}))
    assert choice.n_workers == n_workers
    assert choice.reason == "one environment cannot be shared out"


def test_no_worker_is_started_that_does_not_pay() -> None:
    """Of many cores, environments of 50 us get as many workers as their hand-over leaves worth having."""
    choice = chosen(64, 50e-6, 64)
    assert choice.n_workers == 7
    assert "15 workers 0.65 ms" in choice.reason


@pytest.mark.parametrize(
    ("n_envs", "step_s", "work_s", "n_workers"),
    [(64, 10e-3, 0.1e-3, 31), (8, 10e-3, 0.1e-3, 7), (64, 10e-3, 2e-3, 15), (64, 1e-3, 0.01e-3, 15)],
    ids=["waits", "few", "works too", "waits shortly"],
)
def test_environments_that_wait_get_more_workers_than_cores(
    n_envs: int, step_s: float, work_s: float, n_workers: int
) -> None:
    """Waiting is done side by side, at most 16 to a core, until the work in between fills the cores."""
    choice = chosen(n_envs, step_s, 2, work_s)
    assert (choice.kind, choice.n_workers) == ("split", n_workers)
    assert "are work" in choice.reason


def test_shares_are_even_and_what_would_be_better_is_said() -> None:
    """Seven environments cannot be shared by four; the sentence names the number that could."""
    choice = chosen(7, 10e-3, 4)
    assert choice.kind == "inline"
    assert choice.reason.endswith("7 cannot be shared evenly by 4, env.n_envs = 8 could")


def test_workers_without_a_number_are_counted_by_measuring() -> None:
    """Where the preset wants workers, only their number is chosen; a written number is taken unmeasured, and with
    "auto" it is one of workers for which the trainer waits, as it was before the trainer could step a share.
    """
    assert chosen(8, 5e-6, 4, vec="workers").kind == "workers"
    assert chosen(8, 5e-6, 4, vec="split").kind == "split"
    assert chosen(7, 5e-3, 2, vec="split").reason.endswith("7 cannot be shared evenly by 2, env.n_envs = 8 could")
    assert (chosen(8, 5e-3, 4, n_workers=2).kind, chosen(8, 5e-3, 4, n_workers=2).n_workers) == ("workers", 2)
    written = spec_with(env={"vec": "workers", "n_envs": 6, "n_workers": 3}).env
    assert choose(written, unmade, 4) == Choice("workers", 3, "as the preset says")


def test_workers_that_leave_the_trainer_no_core_name_what_would() -> None:
    """They are taken as they are written; the sentence says how each core gets one process."""
    written = spec_with(env={"vec": "workers", "n_envs": 6, "n_workers": 3}).env
    choice = choose(written, unmade, 3)
    assert (choice.kind, choice.n_workers) == ("workers", 3)
    assert choice.reason.endswith('share 3 cores, where env.vec = "split" with env.n_workers = 2 has one for each')
    assert choose(written, unmade, 2).reason == "as the preset says"


def unmade() -> gymnasium.Env[Any, Any]:
    """Nothing is measured, so nothing is made."""
    raise AssertionError


def test_a_slow_environment_goes_to_as_many_workers_as_there_are_cores() -> None:
    """A step of 10 ms is worth a process a core, and the measure finds it."""
    built = build_vec_env(spec_with(env={"id": "Slow-v0", "vec": "auto", "n_envs": 8 * CORES, **WORKER_ENVS}), None)
    built.vec.close()
    assert built.kind == ("split" if CORES > 1 else "inline")
    assert built.n_workers == (CORES - 1 or None)


def test_a_waiting_environment_is_measured_as_one() -> None:
    """Eight that wait 5 ms a step are waited for at once, however few cores there are."""
    choice = choice_of(spec_with(env={"id": "Waiting-v0", "vec": "auto", "n_envs": 8, **WORKER_ENVS}))
    assert (choice.kind, choice.n_workers) == ("split", 7)


def test_the_measured_step_is_a_time() -> None:
    """A CartPole step takes between a microsecond and a few milliseconds anywhere."""
    assert 1e-6 < step_cost(EnvMaker(EnvSpec(id="CartPole-v1"), None)).step_s < 1e-2


def test_work_is_measured_in_processor_time_and_waiting_by_the_clock() -> None:
    """Work stays what it is on a busy machine, where waits grow; a wait for a simulator counts as work."""
    slow, waiting, asking = (
        step_cost(EnvMaker(EnvSpec(id=id_, imports=("tests.trainer.worker_envs",)), None))
        for id_ in ("Slow-v0", "Waiting-v0", "Asking-v0")
    )
    assert slow.step_s == slow.work_s >= 10e-3
    assert waiting.step_s >= 5e-3
    assert waiting.waits
    assert asking.work_s >= 5e-3
    # They share the machine with whoever else is there, so only what each takes of a processor can be compared.
    assert 2 * waiting.work_s < asking.work_s < slow.work_s < 2 * asking.work_s + 10e-3


def test_where_an_environment_hangs_that_is_measured_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the log, which the flag of a slow start points to: no row and no worker can tell yet."""
    said: list[str] = []
    heard = threading.Event()

    def hear(sentence: str) -> None:
        said.append(sentence)
        heard.set()

    class Stuck(Walk):
        def reset(self, **keywords: Any) -> Any:
            assert heard.wait(10.0)
            return super().reset(**keywords)

    monkeypatch.setattr("mission_tui.trainer.vec_env.build._SILENT_S", 0.05)
    monkeypatch.setattr("mission_tui.trainer.vec_env.build.complain", hear)
    choose(EnvSpec(id="Walk-v0", n_envs=4), Stuck, 2)
    (sentence,) = said
    assert sentence.startswith("the environment that is tried out to choose env.vec has not answered for 0.05 s (")
    assert sentence.endswith("in wait)")


def test_a_kept_kind_wins_over_measuring() -> None:
    """A later attempt runs as the first one did."""
    built = build_vec_env(spec_with(env={"vec": "auto", "id": "MissionGym-v0", "config": "demo"}), None, "inline")
    assert isinstance(built.vec, InlineVecEnv)
    assert built.reason == "as in the attempt before"


@pytest.mark.parametrize(
    ("vec", "env", "kept", "n_workers"),
    [
        ("workers", {"n_envs": 6}, 3, 3),
        ("workers", {"n_envs": 4}, 3, 2),
        ("workers", {"n_envs": 6, "n_workers": 2}, 3, 2),
        ("split", {"n_envs": 6}, 2, 2),
        ("split", {"n_envs": 5}, 2, None),
        ("split", {"n_envs": 6, "n_workers": 1}, 2, 1),
        ("split", {"n_envs": 1}, 2, None),
        ("auto", {"n_envs": 4}, 3, 3),
    ],
)
def test_a_kept_grouping_wins_over_measuring(
    vec: str, env: dict[str, object], kept: int, n_workers: int | None
) -> None:
    """A later attempt shares its environments as the first one did, as far as that still divides them."""
    kind: Literal["split", "workers"] = "workers" if vec == "workers" else "split"
    built = build_vec_env(spec_with(env={"id": "Walk-v0", "vec": vec, **PROBES, **env}), None, kind, kept)
    built.vec.close()
    assert (built.kind, built.n_workers) == (kind if n_workers else "inline", n_workers)


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
    spec = spec_with(env={"id": "Walk-v0", "vec": "workers", "n_workers": 2, **PROBES})
    built = build_vec_env(spec, None)
    assert isinstance(built.vec, WorkersVecEnv)
    assert len(built.worker_pids) == 2
    built.vec.reset()
    assert built.vec.step(np.zeros(2))[1].tolist() == [1.0, 1.0]
    built.vec.close()
    assert not any(map(psutil.pid_exists, built.worker_pids))


def test_a_worker_that_dies_is_named() -> None:
    """Which worker and how it died is said, and closing does not wait for its answer."""
    spec = spec_with(env={"id": "Dying-v0", "vec": "workers", "n_envs": 1, **PROBES})
    vec = build_vec_env(spec, None).vec
    vec.reset()
    for _ in range(3):
        vec.step(np.zeros(1))
    with pytest.raises(
        EnvError, match=r"env worker 0 of 1 \(environment 0\) was killed \(SIGKILL, signal 9\) in environment 0"
    ):
        vec.step(np.zeros(1))
    vec.close()
