"""Environments in workers live what they live under SB3's `DummyVecEnv`, and answer what they answer there."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecCheckNan, VecEnv, VecFrameStack, VecMonitor, VecNormalize

import mission_tui.envs  # noqa: F401 - registers MissionGym
import tests.trainer.masked_envs
import tests.trainer.worker_envs  # noqa: F401 - registers its own
from mission_tui.envs.channel import EnvRecipe
from mission_tui.records.runs.attempt import write_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.failures import EnvError
from mission_tui.trainer.vec_env import InlineVecEnv, WorkersVecEnv, savable
from tests.trainer.harness import equal, new_run, run_attempt, spec_with, stop_in

LANES, WORKERS = 5, 2
PROBES = ("tests.trainer.worker_envs", "tests.trainer.masked_envs")
MISSION = {"config": "demo", "overrides": {"rules": {"time_limit_s": 10.0}}}


split_or_not = pytest.mark.parametrize("split", [False, True], ids=["workers", "split"])


@contextmanager
def workers(id_: str, shares: int = WORKERS, split: bool = False, **kwargs: Any) -> Iterator[WorkersVecEnv]:
    """Five environments on workers, unevenly, or on one worker less and in this process."""
    made = gymnasium.make(id_, **kwargs)
    spaces = made.observation_space, made.action_space
    vec = WorkersVecEnv(EnvRecipe(id_, kwargs, PROBES), LANES, spaces, shares - split, split=split)
    try:
        yield vec
    finally:
        vec.close()


def dummy(id_: str, **kwargs: Any) -> DummyVecEnv:
    """The same in SB3's own."""
    return DummyVecEnv([lambda: Monitor(gymnasium.make(id_, **kwargs))] * LANES)


def actions_of(vec: VecEnv, step: int) -> Any:
    """The same actions for both sides."""
    vec.action_space.seed(step)
    return np.stack([vec.action_space.sample() for _ in range(LANES)])


def same(ours: Any, theirs: Any, at: str = "") -> None:
    """Equal in value, type of array and keys; wall times may differ."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), at
        for key in theirs.keys() - {"t"}:
            same(ours[key], theirs[key], f"{at}.{key}")
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs), at
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            same(one, other, f"{at}[{index}]")
    elif isinstance(theirs, np.ndarray):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), at
        np.testing.assert_array_equal(ours, theirs, at)
    else:
        assert ours == theirs, at


def live(ours: VecEnv, theirs: VecEnv, steps: int) -> int:
    """Step both with the same actions and compare everything; the number of episodes that ended."""
    ended = 0
    same(ours.reset(), theirs.reset(), "reset")
    same(list(ours.reset_infos), list(theirs.reset_infos), "reset_infos")
    for step in range(steps):
        actions = actions_of(theirs, step)
        mine, other = ours.step(actions), theirs.step(actions)
        same(mine, other, f"step {step}")
        same(list(ours.reset_infos), list(theirs.reset_infos), f"reset_infos {step}")
        ended += int(other[2].sum())
    return ended


SPACES: dict[str, dict[str, Any]] = {
    "CartPole-v1": {},
    "Pendulum-v1": {"max_episode_steps": 20},
    "Acrobot-v1": {"max_episode_steps": 30},
    "MountainCar-v0": {"max_episode_steps": 30},
    "FrozenLake-v1": {},
    "MissionGym-v0": MISSION,
    "Walk-v0": {},
    "MultiWalk-v0": {},
    "BinaryWalk-v0": {},
    "DictWalk-v0": {},
    "ImageWalk-v0": {},
    "UnboundedWalk-v0": {},
    "SwitchWalk-v0": {},
    "MixedWalk-v0": {},
    "Talkative-v0": {},
}


BOTH_WAYS = [
    pytest.param(id_, split, id=f"{id_}-{how}", marks=() if (number % 2 == 0) == split else pytest.mark.slow)
    for number, id_ in enumerate(SPACES)
    for split, how in ((False, "workers"), (True, "split"))
]
"""Each space in one of the ways, by turns, and in the other where there is time: most of it is workers that start."""


@pytest.mark.parametrize(("id_", "split"), BOTH_WAYS)
def test_the_same_seeds_live_the_same_episodes(id_: str, split: bool) -> None:
    """Observations, rewards, ends, infos and reset infos are equal to DummyVecEnv's bit for bit, in every space."""
    theirs = dummy(id_, **SPACES[id_])
    with workers(id_, split=split, **SPACES[id_]) as ours:
        for vec in (ours, theirs):
            vec.seed(5)
        assert live(ours, theirs, 60) > 0


@split_or_not
def test_seeds_and_options_are_used_once_and_where_they_belong(split: bool) -> None:
    """Options for one environment reach that one; the next reset has neither options nor the seed again."""
    theirs = dummy("Talkative-v0")
    with workers("Talkative-v0", split=split) as ours:
        for vec in (ours, theirs):
            vec.seed(9)
            vec.set_options([{"lane": lane} if lane != 2 else {} for lane in range(LANES)])
        live(ours, theirs, 3)
        assert ours.reset_infos[3]["options"] == {"lane": 3}
        live(ours, theirs, 25)
        assert ours.reset_infos[3]["options"] is None


WRAPPERS: dict[str, Callable[[VecEnv], VecEnv]] = {
    "normalize": VecNormalize,
    "frame stack": lambda vec: VecFrameStack(vec, 3),
    "monitor": VecMonitor,
    "check nan": lambda vec: VecCheckNan(vec, raise_exception=True),
}


@pytest.mark.filterwarnings("ignore:The environment is already wrapped:UserWarning")
@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_wrappers_of_sb3_see_no_difference(wrap: Callable[[VecEnv], VecEnv]) -> None:
    """What comes out of each of SB3's wrappers is what comes out of it around DummyVecEnv."""
    theirs = wrap(dummy("Talkative-v0"))
    with workers("Talkative-v0") as base:
        ours = wrap(base)
        for vec in (ours, theirs):
            vec.seed(2)
        assert live(ours, theirs, 40) >= LANES


@split_or_not
def test_environments_answer_as_they_do_at_home(split: bool) -> None:
    """Attributes, methods, wrappers and pictures, for all or for some, in the order in which they were asked for."""
    theirs = dummy("Talkative-v0", render_mode="rgb_array")
    with workers("Talkative-v0", split=split, render_mode="rgb_array") as ours:
        for vec in (ours, theirs):
            vec.reset()
            vec.set_attr("colour", "blue", indices=[1, 4])
        for ask in ASKED:
            same(ask(ours), ask(theirs))


ASKED: tuple[Callable[[VecEnv], Any], ...] = (
    lambda vec: vec.render_mode,
    lambda vec: vec.get_attr("steps"),
    lambda vec: vec.get_attr("colour", indices=[4, 1]),
    lambda vec: vec.get_attr("render_mode", indices=-1),
    lambda vec: vec.has_attr("colour"),
    lambda vec: vec.has_attr("steps"),
    lambda vec: vec.env_method("add", 2, other=3, indices=[3, 0, 3]),
    lambda vec: vec.env_is_wrapped(Monitor),
    lambda vec: vec.env_is_wrapped(TimeLimit, indices=0),
    lambda vec: vec.env_is_wrapped(gymnasium.wrappers.OrderEnforcing, indices=[2]),
    lambda vec: list(vec.get_images()),
    lambda vec: vec.render("rgb_array"),
)


@split_or_not
def test_infos_between_the_ends_can_be_left_out(split: bool) -> None:
    """With `all_infos` off only steps that end an episode carry more than the word that they do not."""
    made = gymnasium.make("Talkative-v0")
    spaces = made.observation_space, made.action_space
    recipe = EnvRecipe("Talkative-v0", {}, PROBES)
    vec = WorkersVecEnv(recipe, 2, spaces, 2 - split, all_infos=False, split=split)
    vec.reset()
    infos = [vec.step(np.zeros(2, dtype=np.int64))[3] for _ in range(10)]
    vec.close()
    assert infos[0] == [{"TimeLimit.truncated": False}] * 2
    assert infos[-1][0].keys() > {"draw", "episode", "outcome", "terminal_observation", "TimeLimit.truncated"}


@pytest.mark.slow
@pytest.mark.parametrize("id_", ["CartPole-v1", "MissionGym-v0"])
def test_a_state_goes_on_in_other_hands(id_: str) -> None:
    """A state from workers goes on inline, on another number of workers and split with one, and back, bit for bit."""
    kwargs = SPACES[id_]
    inline = InlineVecEnv([lambda: Monitor(gymnasium.make(id_, **kwargs))] * LANES)
    inline.reset()
    with workers(id_, **kwargs) as first, workers(id_, 5, **kwargs) as second, workers(id_, 2, True, **kwargs) as third:
        base = savable(first)
        assert base is not None
        first.seed(3)
        first.reset()
        for step in range(7):
            first.step(actions_of(first, step))
        second.reset()
        third.reset()
        for other in (inline, second, third):
            other.set_state(base.get_state())
        for step in range(7, 60):
            actions = actions_of(first, step)
            steps = [vec.step(actions) for vec in (first, inline, second, third)]
            same(steps[0][:3], steps[1][:3])
            same(steps[0], steps[2])
            same(steps[0], steps[3])
        same(first.get_state(), inline.get_state())
        same(first.get_state(), third.get_state())


@pytest.mark.slow
def test_actions_may_come_in_any_type_that_fits() -> None:
    """The type that arrives is the type that the environment gets; too many or too wide ones are refused."""
    theirs = dummy("BinaryWalk-v0")
    with workers("BinaryWalk-v0") as ours:
        for vec in (ours, theirs):
            vec.reset()
        for dtype in (np.int8, np.float32, np.float64, np.int8):
            ours.step(np.ones((LANES, 2), dtype=dtype))
        with pytest.raises(ValueError, match="4 actions for 5 environments"):
            ours.step(np.ones((4, 2)))
        with pytest.raises(ValueError, match="do not fit the action space"):
            ours.step(np.ones((LANES, 3)))
        ours.step(np.ones((LANES, 2)))


@split_or_not
def test_a_step_that_nobody_waited_for_is_not_mistaken_for_another(split: bool) -> None:
    """A question between `step_async` and `step_wait` gets its own answer, and a reset begins anew."""
    with workers("Talkative-v0", split=split) as vec:
        vec.reset()
        vec.step_async(np.zeros(LANES, dtype=np.int64))
        assert vec.get_attr("steps") == [1] * LANES
        vec.step_async(np.zeros(LANES, dtype=np.int64))
        vec.reset()
        assert vec.get_attr("steps") == [0] * LANES
        assert vec.steps_done == ((4,) if split else (4, 6))


def effective_env(run_dir: RunDir, attempt: int) -> dict[str, Any]:
    """What the attempt says of its environments."""
    table: dict[str, Any] = tomllib.loads(run_dir.attempt(attempt).effective.read_text())["env"]
    return table


@pytest.mark.slow
@pytest.mark.parametrize(
    ("vec", "env"),
    [
        ("workers", {"id": "CartPole-v1"}),
        ("workers", {"id": "MissionGym-v0", "config": "demo", "normalize": True, "n_workers": 2}),
        ("split", {"id": "CartPole-v1", "n_workers": 1}),
    ],
)
def test_a_run_on_workers_resumes_exactly(vec: str, env: dict[str, Any], tmp_path: Path) -> None:
    """Stopped in the middle of a rollout and resumed, it equals one that never stopped and one that ran inline."""
    alone = spec_with(env={**env, "vec": "inline", "n_workers": None})
    inline = run_attempt(new_run(tmp_path / "inline", alone))
    run_dir = new_run(tmp_path / "resumed", spec_with(env={**env, "vec": vec}))
    first = run_attempt(run_dir, hook=stop_in("rollout", 3))
    resumed = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert resumed.started().exact
    assert resumed.started().from_update == 3
    assert equal(resumed.parameters(), inline.parameters())
    # CartPole is too cheap for a second worker; that was measured once, and holds for every attempt.
    groupings = [effective_env(run_dir, attempt)["n_workers"] for attempt in (1, 2)]
    assert groupings == [env.get("n_workers", 1)] * 2


@pytest.mark.slow
@pytest.mark.parametrize("env", [{"id": "CartPole-v1"}, {"id": "MissionGym-v0", "config": "demo", "normalize": True}])
def test_a_resume_on_another_number_of_workers_is_exact(env: dict[str, Any], tmp_path: Path) -> None:
    """Three processes instead of one step the same environments to the same parameters, and the record says so."""
    spread = {**env, "vec": "workers", "n_envs": 3}
    was, now = (spec_with(env={**spread, "n_workers": n}) for n in (1, 3))
    whole = run_attempt(new_run(tmp_path / "whole", was))
    run_dir = new_run(tmp_path / "resumed", was)
    first = run_attempt(run_dir, hook=stop_in("rollout", 2))
    own = run_dir.attempt(2).spec
    own.parent.mkdir(parents=True)
    write_spec(own, now)
    resumed = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert tomllib.loads(run_dir.attempt(2).effective.read_text())["env"]["n_workers"] == 3
    assert resumed.started().exact
    assert equal(resumed.parameters(), whole.parameters())


@pytest.mark.slow
def test_what_an_environment_has_is_asked_without_sending_it() -> None:
    """A method is there or not, whether it can be pickled or not; everything else is as with SB3's own."""
    with workers("CartPole-v1") as vec:
        assert vec.has_attr("step")
        assert vec.has_attr("gravity")
        assert not vec.has_attr("action_masks")
    with workers("MissionGym-v0", config="demo") as vec:
        assert vec.has_attr("action_masks")
        assert np.stack(vec.env_method("action_masks")).shape == (LANES, 27)


@split_or_not
def test_masks_come_with_every_step_and_are_those_of_the_moment(split: bool) -> None:
    """After steps, resets and restored states: what each environment itself would answer."""
    with workers("Doors-v0", split=split) as vec:
        vec.seed(3)
        vec.reset()
        seen = []
        for step in range(25):
            masks = vec.action_masks()
            np.testing.assert_array_equal(masks, np.stack(vec.env_method("action_masks")))
            np.testing.assert_array_equal(masks, vec.action_masks())
            seen.append(masks)
            if step == 12:
                vec.reset()
            else:
                vec.step(masks.argmax(axis=1))
        assert all((before != after).any() for before, after in pairwise(seen))
        start, first = vec.get_state(), vec.action_masks()
        vec.step(first.argmax(axis=1))
        assert (vec.action_masks() != first).any()
        vec.set_state(start)
        np.testing.assert_array_equal(vec.action_masks(), first)


def test_a_step_after_the_end_writes_into_nobody_elses_file() -> None:
    """The descriptors of workers that were dismissed may be other files by then."""
    with workers("CartPole-v1") as vec:
        vec.reset()
        actions = actions_of(vec, 0)
        vec.step(actions)
    others = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(16)]
    with pytest.raises(EnvError, match="env worker 0 of 2"):
        vec.step_async(actions)
    for other in others:
        with pytest.raises(BlockingIOError):
            os.eventfd_read(other)
        os.close(other)
