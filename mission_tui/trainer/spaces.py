"""Which observation and action spaces SB3's PPO can be trained on, and how a space is named in one word.

Needs gymnasium and NumPy only, so that a preflight answers without torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from mission_tui.fleet.spec import PpoSpec

__all__ = ["refusal", "short"]


def short(space: spaces.Space[Any]) -> str:
    """``Box(4,)``, ``Discrete(2)``, ``MultiDiscrete([9 9])``: the space without its bounds."""
    return f"Box{space.shape}" if isinstance(space, spaces.Box) else str(space)


def refusal(observations: spaces.Space[Any], actions: spaces.Space[Any], ppo: PpoSpec) -> str | None:
    """Why PPO cannot be trained on these spaces with this policy, as a sentence; None if it can."""
    return _action_refusal(actions, ppo) or _observation_refusal(observations, ppo)


def _action_refusal(actions: spaces.Space[Any], ppo: PpoSpec) -> str | None:
    match actions:
        case spaces.Box() if not np.isfinite([actions.low, actions.high]).all():
            return f"its actions {short(actions)} are unbounded; PPO needs finite bounds, wrap it in RescaleAction"
        case spaces.MultiBinary() if not isinstance(actions.n, int):
            return f"its actions {short(actions)} have several dimensions; flatten them"
        case spaces.Box() | spaces.Discrete() | spaces.MultiDiscrete() | spaces.MultiBinary():
            pass
        case _:
            return f"its actions {short(actions)} are none of Box, Discrete, MultiDiscrete and MultiBinary"
    if ppo.use_sde and not isinstance(actions, spaces.Box):
        return f"ppo.use_sde needs continuous actions, and these are {short(actions)}"
    return None


def _observation_refusal(observations: spaces.Space[Any], ppo: PpoSpec) -> str | None:
    match observations:
        case spaces.Tuple():
            return "its observations are a Tuple; PPO takes arrays and flat dictionaries"
        case spaces.Dict():
            if any(isinstance(part, spaces.Dict | spaces.Tuple) for part in observations.values()):
                return "its observations are nested; PPO takes arrays and flat dictionaries"
            if ppo.policy in ("MlpPolicy", "CnnPolicy"):
                return "its observations are a dictionary; use ppo.policy = 'MultiInputPolicy'"
        case _ if ppo.policy == "MultiInputPolicy":
            return f"ppo.policy = 'MultiInputPolicy' needs a dictionary, and its observations are {short(observations)}"
        case _ if ppo.policy == "CnnPolicy" and len(observations.shape or ()) != 3:
            return f"ppo.policy = 'CnnPolicy' needs images, and its observations are {short(observations)}"
    return None
