"""Environments in the trainer's own process live what they live under SB3's `DummyVecEnv`."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from stable_baselines3.common.monitor import Monitor

from mission_tui.trainer.vec_env import InlineVecEnv
from tests.trainer.vec_env.test_workers import LANES, SPACES, actions_of, dummy, live, same


def inline(id_: str, **kwargs: Any) -> InlineVecEnv:
    """Five environments in this process."""
    return InlineVecEnv([lambda: Monitor(gymnasium.make(id_, **kwargs))] * LANES)


@pytest.mark.parametrize("id_", SPACES)
def test_the_same_seeds_live_the_same_episodes(id_: str) -> None:
    """Observations, rewards, ends, infos and reset infos are equal to DummyVecEnv's bit for bit, in every space."""
    ours, theirs = inline(id_, **SPACES[id_]), dummy(id_, **SPACES[id_])
    for vec in (ours, theirs):
        vec.seed(5)
    assert live(ours, theirs, 60) > 0


class Notebook(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that writes into one and the same info for ever."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.page: dict[str, Any] = {"steps": 0}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, _ = self.env.step(action)
        self.page["steps"] += 1
        return observation, reward, terminated, truncated, self.page


def test_what_a_step_returned_stays_as_it_was() -> None:
    """Observations, rewards, ends and infos that were kept are not changed by the next step."""
    vec = InlineVecEnv([lambda: Notebook(gymnasium.make("CartPole-v1"))])
    vec.seed(1)
    vec.reset()
    first = vec.step(actions_of(vec, 0)[:1])
    kept = deepcopy(first)
    vec.step(actions_of(vec, 1)[:1])
    same(first, kept)
    assert first[3][0]["steps"] == 1
    assert vec.step(actions_of(vec, 2)[:1])[3][0]["steps"] == 3


class Scribbler(Notebook):
    """Of an episode's last info it also keeps what lies in it."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, _, _, page = super().step(action)
        page.setdefault("deep", {"list": [], "array": np.zeros(2)})["list"].append(page["steps"])
        page["deep"]["array"] += 1
        page["episode"] = {"r": 1.0, "parts": [page["steps"]]}
        return observation, reward, True, False, page


def test_the_last_info_of_an_episode_stays_as_it_was_to_its_depth() -> None:
    """Nothing in it is the environment's own any more, whatever it is made of."""
    vec = InlineVecEnv([lambda: Scribbler(gymnasium.make("CartPole-v1"))])
    vec.seed(1)
    vec.reset()
    info = vec.step(actions_of(vec, 0)[:1])[3][0]
    kept = deepcopy(info)
    vec.step(actions_of(vec, 1)[:1])
    same(info, kept)
    assert info["deep"]["list"] == [1]
    info["episode"]["parts"].append(0)
    assert vec.envs[0].get_wrapper_attr("page")["episode"]["parts"] == [2]


class Counting(OrderEnforcing[Any, Any]):
    """One that does more in a step than Gymnasium's."""

    steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        return super().step(action)


def test_a_step_leaves_out_wrappers_that_have_nothing_left_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once an episode was played Gymnasium's checkers hear of no step any more, and still of resets; a class derived
    from one of them hears of all.
    """
    heard: dict[str, int] = {"step": 0, "reset": 0}
    for name in heard:
        plain = getattr(PassiveEnvChecker, name)

        def counted(self: Any, *args: Any, plain: Any = plain, name: str = name, **kwargs: Any) -> Any:
            heard[name] += 1
            return plain(self, *args, **kwargs)

        monkeypatch.setattr(PassiveEnvChecker, name, counted)
    vec = InlineVecEnv([lambda: Monitor(Counting(gymnasium.make("CartPole-v1")))])
    vec.seed(1)
    vec.reset()
    lengths = [_play(vec) for _ in range(3)]
    assert heard == {"step": lengths[0], "reset": 4}
    assert vec.get_attr("steps") == [sum(lengths)]


def test_a_step_that_is_replaced_later_counts_and_a_copy_steps_itself() -> None:
    """Code that puts another method into an environment which has long been stepped is obeyed; a deep copy for a look
    ahead leaves the original where it is.
    """
    vec = inline("CartPole-v1")
    vec.seed(1)
    vec.reset()
    _play(vec)
    env: Any = vec.envs[0]
    before = np.array(env.unwrapped.state)
    copy = deepcopy(env)
    copy.step(np.int64(1))
    np.testing.assert_array_equal(env.unwrapped.state, before)
    assert not np.array_equal(copy.unwrapped.state, before)
    plain = env.unwrapped.step
    env.unwrapped.step = lambda action: (lambda said: (said[0], 7.0, *said[2:]))(plain(action))
    assert vec.step(np.ones(LANES, dtype=np.int64))[1][0] == 7.0


def _play(vec: InlineVecEnv) -> int:
    """The length of an episode that goes one way."""
    steps = 1
    while not vec.step(np.ones(vec.num_envs, dtype=np.int64))[2][0]:
        steps += 1
    return steps


@pytest.mark.parametrize("number", [LANES - 1, LANES + 1])
def test_a_wrong_number_of_actions_is_the_callers_fault(number: int) -> None:
    """Not the environment's, and nothing is stepped."""
    vec = inline("CartPole-v1")
    vec.seed(1)
    vec.reset()
    with pytest.raises(ValueError, match=f"^{number} actions were given for {LANES} environments$"):
        vec.step(np.zeros(number, dtype=np.int64))
    assert vec.get_attr("_elapsed_steps") == [0] * LANES
