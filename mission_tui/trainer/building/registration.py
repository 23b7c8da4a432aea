"""What an environment's registration says of its task: the return that counts as solved, and where an episode is cut.

Unknown is None. MissionGym registers no limit, since its length is a rule of the mission.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mission_tui.fleet.specs.spec import EnvSpec
from mission_tui.trainer.building.env_ids import env_kwargs, find_env, mission_rules

__all__ = ["Registration", "registration_of"]


@dataclass(frozen=True, slots=True)
class Registration:
    """`max_episode_steps` are the agent's own steps; `reward_threshold` is in raw returns."""

    reward_threshold: float | None = None
    max_episode_steps: int | None = None


def registration_of(env: EnvSpec, snapshot: Path | None) -> Registration:
    """The registration of `env`, with the limit that the preset's own arguments put in its place.

    Raises `PresetError` for what the preset has wrong.
    """
    registered = find_env(env)
    threshold = registered.reward_threshold
    rules = mission_rules(env, snapshot)
    if rules is not None:
        return Registration(threshold, round(rules.time_limit_s * rules.decision_hz))
    steps = env_kwargs(env, snapshot).get("max_episode_steps", registered.max_episode_steps)
    # Gymnasium takes -1 for no limit at all.
    limited = isinstance(steps, int) and steps > 0
    return Registration(None if threshold is None else float(threshold), steps if limited else None)
