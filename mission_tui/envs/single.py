"""MissionGym as a Gymnasium environment: lane 0 of a core with one lane."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mission_tui.envs.config import load_mission
from mission_tui.envs.core import MissionCore, action_space, observation_space
from mission_tui.envs.mission import Mission, Shaping
from mission_tui.envs.render import RENDER_MODES, draw
from mission_tui.envs.scoring import is_truncated
from mission_tui.envs.state import State

_LANE = np.zeros(1, dtype=np.int64)


class MissionGym(gymnasium.Env[NDArray[np.float32], NDArray[np.int64]]):
    """Ground and air attackers capture a zone that patrolling drones defend.

    `config` names a shipped mission or a folder of rules, `overrides` replaces single keys of it, `shaping` overrides
    the folder's choice, `observe_best` adds the best distance so far to the observation. On the final step of an
    episode, and only there, `info` holds `outcome`, `capture` (share of 1), `survivors` and `time_s`.
    """

    metadata: dict[str, Any] = {"render_modes": RENDER_MODES, "render_fps": 4}  # noqa: RUF012 - as in the base class

    def __init__(
        self,
        config: str | Path = "standard",
        *,
        shaping: Shaping | None = None,
        observe_best: bool = False,
        overrides: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.mission: Mission = load_mission(config, overrides)
        self.core = MissionCore(self.mission, [self.np_random], shaping=shaping, observe_best=observe_best)
        self.observation_space = observation_space(self.core)
        self.action_space = action_space(self.core)
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode; `options` are not used."""
        super().reset(seed=seed)
        self.core.generators[0] = self.np_random
        self.core.reset(_LANE)
        return self.core.observe()[0], {}

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """One decision of `decision_s` seconds; raises `ResetNeeded` after the final step."""
        reward = self.core.step(np.asarray(action)[None])
        outcome = self.core.fields.outcome
        over, truncated = bool(outcome[0]), bool(is_truncated(outcome)[0])
        info = self.core.final_info(0) if over else {}
        return self.core.observe()[0], float(reward[0]), over and not truncated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions do something, shape (A * 9,): the mask that sb3-contrib's `MaskablePPO` asks for."""
        masks: NDArray[np.bool_] = self.core.action_masks()[0]
        return masks

    def render(self) -> Any:
        """A text (`ansi`) or an RGB array of shape (height, width, 3) (`rgb_array`); None without a render mode."""
        return draw(self.core, 0, self.render_mode)

    def get_state(self) -> State:
        """See `StatefulEnv`."""
        return self.core.get_state()

    def set_state(self, state: State) -> None:
        """See `StatefulEnv`."""
        self.core.set_state(state)
        self.np_random = self.core.generators[0]
