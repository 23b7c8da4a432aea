"""MissionGym, its vector form, and exact saving of environments; importing this room registers `MissionGym-v0`."""

from __future__ import annotations

import gymnasium

from mission_tui.envs.mission import OUTCOMES, Mission, Outcome, load_mission, mission_files, shipped_missions
from mission_tui.envs.mission_gym import MissionGym, MissionGymVector
from mission_tui.envs.state import State, StatefulEnv, can_save_state, restore_env_state, save_env_state

__all__ = [
    "OUTCOMES",
    "Mission",
    "MissionGym",
    "MissionGymVector",
    "Outcome",
    "State",
    "StatefulEnv",
    "can_save_state",
    "load_mission",
    "mission_files",
    "restore_env_state",
    "save_env_state",
    "shipped_missions",
]

gymnasium.register(
    id="MissionGym-v0",
    entry_point="mission_tui.envs.mission_gym:MissionGym",
    vector_entry_point="mission_tui.envs.mission_gym:MissionGymVector",
)
