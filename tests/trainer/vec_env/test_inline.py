"""Environments in the trainer's own process live what they live under SB3's `DummyVecEnv`."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
import pytest
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


@pytest.mark.parametrize("number", [LANES - 1, LANES + 1])
def test_a_wrong_number_of_actions_is_the_callers_fault(number: int) -> None:
    """Not the environment's, and nothing is stepped."""
    vec = inline("CartPole-v1")
    vec.seed(1)
    vec.reset()
    with pytest.raises(ValueError, match=f"^{number} actions were given for {LANES} environments$"):
        vec.step(np.zeros(number, dtype=np.int64))
    assert vec.get_attr("_elapsed_steps") == [0] * LANES
