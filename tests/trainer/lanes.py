"""Two vectorised environments that should live the same episodes: stepped side by side and compared, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.vec_env import VecEnv

__all__ = ["lived_alike"]


def lived_alike(
    batch: VecEnv, single: VecEnv, seed: int, steps: int, choose: Callable[[int], Any], **near: Any
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The infos of both sides at the end of each episode, after `steps` steps with the actions `choose(step)`.

    Observations, rewards, ends, last observations, time limits and lengths are equal; returns are so within `near`,
    because they are sums in another order of another precision.
    """
    batch.seed(seed)
    single.seed(seed)
    np.testing.assert_array_equal(batch.reset(), single.reset())
    ended = []
    for step in range(steps):
        actions = choose(step)
        (obs, rewards, dones, infos), (obs_1, rewards_1, dones_1, infos_1) = batch.step(actions), single.step(actions)
        np.testing.assert_array_equal(obs, obs_1)
        np.testing.assert_array_equal(rewards, rewards_1)
        np.testing.assert_array_equal(dones, dones_1)
        for lane in np.flatnonzero(dones):
            info, info_1 = infos[lane], infos_1[lane]
            np.testing.assert_array_equal(info["terminal_observation"], info_1["terminal_observation"])
            assert info["TimeLimit.truncated"] == info_1["TimeLimit.truncated"]
            assert info["episode"]["l"] == info_1["episode"]["l"]
            assert info["episode"]["r"] == pytest.approx(info_1["episode"]["r"], **near)
            ended.append((info, info_1))
    return ended
