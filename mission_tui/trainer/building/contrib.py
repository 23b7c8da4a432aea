"""Whether the algorithms beyond PPO can be trained here: they are sb3-contrib's, which is an extra.

Standard library only, so that a preflight answers without torch.
"""

from __future__ import annotations

import importlib.util

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.spec import Algo

__all__ = ["CONTRIB", "check_contrib"]

CONTRIB = "sb3-contrib"


def check_contrib(algo: Algo) -> None:
    """Raise `PresetError`, with what to install, if `algo` needs sb3-contrib and that is not here."""
    if algo != "ppo" and importlib.util.find_spec("sb3_contrib") is None:
        raise PresetError(f"ppo.algo = '{algo}' needs the `contrib` extra: pip install 'mission-tui[contrib]'")
