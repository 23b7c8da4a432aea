"""MissionGym for Gymnasium: one field, or N fields as a vector environment with all lanes in one core, each reset in
the step that ends its episode.

Lane i of a vector's `reset(seed=s)` lives the same episodes as a single environment with `reset(seed=s + i)`, bit for
bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mission_tui.envs.core import MissionCore, action_space, observation_space
from mission_tui.envs.fields import Bools, Floats
from mission_tui.envs.masks import reset_mask
from mission_tui.envs.mission import Mission, Shaping, load_mission
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


class MissionGymVector(VectorEnv[NDArray[np.float32], NDArray[np.int64], NDArray[Any]]):
    """N fields of one mission; arguments as for `MissionGym`.

    `infos` is empty unless an episode ended; then `final_obs` and `final_info` hold what the single environment would
    have returned, with Gymnasium's masks.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as in the base class
        "render_modes": RENDER_MODES,
        "render_fps": 4,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        config: str | Path = "standard",
        *,
        shaping: Shaping | None = None,
        observe_best: bool = False,
        overrides: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.num_envs = num_envs
        self.mission: Mission = load_mission(config, overrides)
        generators, self._seeds = map(list, zip(*(seeding.np_random() for _ in range(num_envs)), strict=True))
        self.core = MissionCore(self.mission, generators, shaping=shaping, observe_best=observe_best)
        self.single_observation_space = observation_space(self.core)
        self.single_action_space = action_space(self.core)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode in every lane; an integer seeds lane i with `seed + i`, None continues its generator.

        `options["reset_mask"]`, an array of `num_envs` booleans, leaves lanes whose entry is false where they are.
        Raises `ValueError` for seeds or a mask of another form.
        """
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed or [None] * self.num_envs
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed must hold one entry for each of {self.num_envs} environments, found {len(seeds)}")
        lanes = np.arange(self.num_envs) if options is None else np.flatnonzero(reset_mask(options, self.num_envs))
        for lane in lanes.tolist():
            if (lane_seed := seeds[lane]) is not None:
                self.core.generators[lane], self._seeds[lane] = seeding.np_random(lane_seed)
        self.core.reset(lanes)
        return self.core.observe(), {}

    @property  # type: ignore[misc]  # nobody sets it
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]  # as in `SyncVectorEnv`
        """The generator of each lane."""
        return tuple(self.core.generators)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]  # as in `SyncVectorEnv`
        """The seed of each lane's generator; -1 where a state was restored, as Gymnasium has it."""
        return tuple(self._seeds)

    def step(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float32], Floats, Bools, Bools, dict[str, Any]]:
        """One decision in every lane; ended lanes return the first observation of their next episode."""
        rewards = self.core.step(np.asarray(actions))
        outcome = self.core.fields.outcome
        over, truncated = outcome > 0, is_truncated(outcome)
        observations = self.core.observe()
        infos: dict[str, Any] = {}
        if over.any():
            lanes = np.flatnonzero(over)
            for lane in lanes.tolist():
                final = {"final_obs": observations[lane].copy(), "final_info": self.core.final_info(lane)}
                infos = self._add_info(infos, final, lane)
            self.core.reset(lanes)
            observations[lanes] = self.core.observe(lanes)
        return observations, rewards, over & ~truncated, truncated, infos

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions do something in each lane, shape (N, A * 9)."""
        return self.core.action_masks()

    def render(self) -> tuple[Any, ...]:
        """One frame per lane, as `MissionGym.render`."""
        return tuple(draw(self.core, lane, self.render_mode) for lane in range(self.num_envs))

    def get_state(self) -> State:
        """See `StatefulEnv`."""
        return self.core.get_state()

    def set_state(self, state: State) -> None:
        """See `StatefulEnv`."""
        self.core.set_state(state)
        self._seeds = [-1] * self.num_envs
