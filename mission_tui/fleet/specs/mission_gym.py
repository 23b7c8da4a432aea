"""The environment that comes with the project, as specs name it; `envs/` is never asked, so that nobody loads NumPy."""

from __future__ import annotations

__all__ = ["MISSION_GYM", "SHIPPED_MISSIONS"]

MISSION_GYM = "MissionGym-v0"
SHIPPED_MISSIONS = (None, "standard", "demo")
"""What `env.config` may be without being a folder of somebody's own."""
