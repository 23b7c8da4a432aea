"""MissionGym's action masks shut exactly the actions that do nothing, alike in its single and its batched form."""

from __future__ import annotations

import numpy as np
import pytest

from mission_tui.envs import MissionGym, MissionGymVector
from tests.envs.scripted import mixture

pytestmark = pytest.mark.slow


LANES = 8


@pytest.mark.parametrize("config", ["standard", "demo"])
def test_what_is_shut_does_nothing(config: str) -> None:
    """Orders that the mask shuts change no number of the field: a twin that holds instead lives the same."""
    free, held = MissionGymVector(LANES, config), MissionGymVector(LANES, config)
    for env in (free, held):
        env.reset(seed=3)
    policy, shut_before_the_end = mixture(np.random.default_rng(5)), 0
    for _ in range(400):
        actions = policy(free.core)
        masks = free.action_masks().reshape(LANES, actions.shape[1], 9)
        allowed = np.take_along_axis(masks, actions[..., None], axis=2)[..., 0]
        shut_before_the_end += int((~allowed).sum())
        one, other = free.step(actions), held.step(np.where(allowed, actions, 0))
        for left, right in zip(one[:4], other[:4], strict=True):
            np.testing.assert_array_equal(left, right)
    assert shut_before_the_end > 50


@pytest.mark.parametrize("config", ["standard", "demo"])
def test_lanes_equal_single_environments(config: str) -> None:
    """Row i of the batched mask is what a single environment of the same seed answers; holding is always allowed."""
    batch, singles = MissionGymVector(LANES, config), [MissionGym(config) for _ in range(LANES)]
    batch.reset(seed=7)
    for lane, single in enumerate(singles):
        single.reset(seed=7 + lane)
    policy = mixture(np.random.default_rng(3))
    for _ in range(150):
        masks = batch.action_masks()
        assert masks.dtype == np.bool_
        assert masks.shape == (LANES, 9 * len(batch.mission.units.attackers))
        assert masks[:, ::9].all()
        actions = policy(batch.core)
        batch.step(actions)
        for lane, single in enumerate(singles):
            np.testing.assert_array_equal(single.action_masks(), masks[lane])
            if any(single.step(actions[lane])[2:4]):
                single.reset()
