"""Partial resets of envpool's batches; its pool is played by a stand-in here, and is real with the extra."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mission_tui.envs.pooled import PooledBatch

SOME = np.array([False, True, False])


class CountingPool:
    """Lanes whose observation is how often they stepped since their last reset."""

    observations = spaces.Box(0.0, 99.0, (1,))
    actions = spaces.Discrete(2)

    def __init__(self, _task: str, lanes: int, *_rest: object) -> None:
        self.steps = np.zeros((lanes, 1), dtype=np.float32)

    def reset(self, *_: object) -> tuple[NDArray[np.float32], dict[str, Any]]:
        self.steps = np.zeros_like(self.steps)
        return self.steps, {}

    def reset_lanes(self, lanes: NDArray[np.int32]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        self.steps = self.steps.copy()
        self.steps[lanes] = 0.0
        return self.steps[lanes], lanes

    def step(self, _actions: object) -> tuple[Any, ...]:
        self.steps = self.steps + 1.0
        never = np.zeros(len(self.steps), dtype=np.bool_)
        return self.steps, np.ones(len(self.steps)), never, never, {}

    def close(self) -> None: ...


@pytest.fixture
def batch(monkeypatch: pytest.MonkeyPatch) -> PooledBatch:
    """Three counting lanes."""
    # Importing it imports envpool with its games, which every process that collects the tests would wait for.
    from mission_tui.envs import pooled

    monkeypatch.setattr(pooled, "_Pool", CountingPool)
    return pooled.PooledBatch(3, "Counting-v0")


def test_a_reset_mask_leaves_the_other_lanes_where_they_are(batch: PooledBatch) -> None:
    """Their observations are those of their last step, and the next step goes on from there."""
    batch.reset(seed=5)
    for _ in range(4):
        batch.step(np.zeros(3))
    after, _ = batch.reset(options={"reset_mask": SOME})
    assert after.ravel().tolist() == [4.0, 0.0, 4.0]
    assert batch.step(np.zeros(3))[0].ravel().tolist() == [5.0, 1.0, 5.0]
    assert batch.reset(options={"reset_mask": np.ones(3, dtype=np.bool_)})[0].ravel().tolist() == [0.0] * 3


@pytest.mark.parametrize("mask", [np.zeros(3, dtype=np.bool_), np.ones(2, dtype=np.bool_), np.ones(3), [1, 0, 1]])
def test_a_reset_mask_of_another_form_is_refused(batch: PooledBatch, mask: Any) -> None:
    """In the words that MissionGym has for it."""
    batch.reset()
    with pytest.raises(ValueError, match="must hold 3 booleans, at least one of them true"):
        batch.reset(options={"reset_mask": mask})


def test_what_a_pool_cannot_do_is_said(batch: PooledBatch) -> None:
    """It is seeded as a whole when it is made, and has nothing to show before its first reset."""
    with pytest.raises(gymnasium.error.ResetNeeded):
        batch.reset(options={"reset_mask": SOME})
    batch.reset()
    with pytest.raises(ValueError, match="without a seed"):
        batch.reset(seed=3, options={"reset_mask": SOME})


@pytest.mark.skipif(importlib.util.find_spec("envpool") is None, reason="the `fast-envs` extra is not installed")
def test_envpools_own_lanes_are_left_too() -> None:
    """CartPole: two poles go on falling, the third stands anew."""
    from mission_tui.envs.pooled import PooledBatch

    batch = PooledBatch(3, "CartPole-v1")
    batch.reset(seed=5)
    for _ in range(4):
        before = batch.step(np.ones(3, dtype=np.int64))[0]
    after, _ = batch.reset(options={"reset_mask": SOME})
    assert np.array_equal(after[~SOME], before[~SOME])
    assert np.abs(after[SOME]).max() <= 0.05
    batch.close()
