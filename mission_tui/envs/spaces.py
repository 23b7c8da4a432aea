"""The spaces of MissionGym, shared by its single and its vector form."""

from __future__ import annotations

from typing import cast

import numpy as np
from gymnasium.spaces import Box, MultiDiscrete, Space
from numpy.typing import NDArray

from mission_tui.envs.core import MissionCore
from mission_tui.envs.movement import HEADINGS

__all__ = ["action_space", "observation_space"]


def observation_space(core: MissionCore) -> Space[NDArray[np.float32]]:
    """All observed numbers lie in [-1, 1]."""
    return cast("Space[NDArray[np.float32]]", Box(-1.0, 1.0, (core.observer.size,), np.float32))


def action_space(core: MissionCore) -> MultiDiscrete:
    """One of eight headings, or hold, per attacker."""
    return MultiDiscrete([len(HEADINGS)] * len(core.mission.units.attackers))
