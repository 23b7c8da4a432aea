"""MissionGym for Gymnasium: one field, or N fields as a vector environment with all lanes in one core, each reset in
the step that ends its episode. And pictures of one field: a page of text for terminals, or an RGB frame drawn with
NumPy alone, its legend too.

Lane i of a vector's `reset(seed=s)` lives the same episodes as a single environment with `reset(seed=s + i)`, bit for
bit. Drawing only reads the state, so rendering never changes a trajectory.
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

from mission_tui.envs.core import MissionCore, action_space, is_truncated, observation_space
from mission_tui.envs.fields import Bools, Fields, Floats
from mission_tui.envs.masks import reset_mask
from mission_tui.envs.mission import Mission, Shaping, load_mission
from mission_tui.envs.state import State

_LANE = np.zeros(1, dtype=np.int64)

RENDER_MODES = ["ansi", "rgb_array"]

_COLUMNS, _LINES = 38, 19
"""With frame and legend a page fits into 80 x 24, and leaves a line."""
_MARKS = " G ground  A air  x disabled  D defender  · zone  █ obstacle"
_SHORT_MARKS = " G A attackers  x lost  D defender"
_PIXELS_PER_M = 2
_LEGEND_PX = 28
_Colour = tuple[int, int, int]
_SOIL: _Colour = (24, 28, 34)
_ROUTE: _Colour = (70, 42, 46)
_WALL: _Colour = (92, 98, 108)
_ZONE: _Colour = (52, 66, 40)
_HELD: _Colour = (150, 190, 70)
_GUARD: _Colour = (235, 90, 70)
_GROUND: _Colour = (70, 150, 240)
_AIR: _Colour = (110, 220, 235)
_DOWN: _Colour = (80, 84, 92)
_TEXT: _Colour = (215, 220, 226)
_ROWS = {
    "0": "### #.# #.# #.# ###",
    "1": ".#. ##. .#. .#. ###",
    "2": "### ..# ### #.. ###",
    "3": "### ..# .## ..# ###",
    "4": "#.# #.# ### ..# ..#",
    "5": "### #.. ### ..# ###",
    "6": "### #.. ### #.# ###",
    "7": "### ..# .#. .#. .#.",
    "8": "### #.# ### #.# ###",
    "9": "### #.# ### ..# ###",
    "/": "..# ..# .#. #.. #..",
    "%": "#.# ..# .#. #.. #.#",
    ".": "... ... ... ... .#.",
    " ": "... ... ... ... ...",
    "a": ".#. #.# ### #.# #.#",
    "c": "### #.. #.. #.. ###",
    "e": "### #.. ##. #.. ###",
    "i": "### .#. .#. .#. ###",
    "n": "##. #.# #.# #.# #.#",
    "p": "### #.# ### #.. #..",
    "r": "##. #.# ##. #.# #.#",
    "s": "### #.. ### ..# ###",
    "t": "### .#. .#. .#. .#.",
    "u": "#.# #.# #.# #.# ###",
}
_GLYPHS = {char: np.array([[dot == "#" for dot in row] for row in rows.split()]) for char, rows in _ROWS.items()}


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


def draw(core: MissionCore, lane: int, mode: str | None) -> str | NDArray[np.uint8] | None:
    """The picture of `lane` in render mode `mode`: text, an array of shape (height, width, 3), or None for no mode."""
    if mode is None:
        return None
    fields = core.fields.take(np.array([lane]))
    return _page(core, fields, _COLUMNS, _LINES) if mode == "ansi" else _frame(core, fields)


def page(core: MissionCore, lane: int, columns: int, lines: int) -> str:
    """The text picture of `lane`, its frame and legend included, in at most so many cells: as large as fits them in
    its own proportions, a cell being twice as high as wide, and no smaller than 8 x 4.
    """
    world = core.mission.world
    inside_columns, inside_lines = max(8, columns - 2), max(4, lines - 4)
    scale = min(inside_columns / world.width_m, 2 * inside_lines / world.height_m)
    fields = core.fields.take(np.array([lane]))
    across, down = max(8, int(world.width_m * scale)), max(4, int(world.height_m * scale / 2))
    *rows, marks = _page(core, fields, across, down).split("\n")
    marks = marks if len(marks) <= columns else _SHORT_MARKS
    # A plain dot: the middle one stands for what a terminal without Unicode cannot show.
    return "\n".join(line[:columns].replace("·", ".") for line in (*rows, marks))


def _legend(core: MissionCore, fields: Fields) -> tuple[str, float]:
    """The legend's text and the share of capture progress."""
    rules = core.mission.rules
    share = float(fields.capture_s[0] / rules.capture_s)
    seconds = float(fields.decisions[0] / rules.decision_hz)
    alive, units = int(fields.alive.sum()), fields.alive.size
    return f"t {seconds:.1f}/{rules.time_limit_s:.0f} s  capture {share:4.0%}  units {alive}/{units}", share


def _page(core: MissionCore, fields: Fields, columns: int, lines: int) -> str:
    world = core.mission.world
    centre_x = (np.arange(columns) + 0.5) * world.width_m / columns
    centre_y = (lines - np.arange(lines) - 0.5) * world.height_m / lines
    grid_x, grid_y = np.meshgrid(centre_x, centre_y)
    page = np.full((lines, columns), " ")
    page[_disc(grid_x, grid_y, fields.zone_x[0], fields.zone_y[0], world.zone.radius_m)] = "·"
    for box in world.obstacles:
        page[_rectangle(grid_x, grid_y, *box.low_m, *box.high_m)] = "█"

    def put(x: float, y: float, mark: str) -> None:
        column = min(int(x * columns / world.width_m), columns - 1)
        page[lines - 1 - min(int(y * lines / world.height_m), lines - 1), column] = mark

    for x, y in zip(fields.guard_x[:, 0], fields.guard_y[:, 0], strict=True):
        put(x, y, "D")
    for unit, name in enumerate(core.mission.units.attackers):
        mark = name[0].upper() if fields.alive[unit, 0] else "x"
        put(fields.x[unit, 0], fields.y[unit, 0], mark)
    legend, _ = _legend(core, fields)
    rows = ["┌" + "─" * columns + "┐", *("│" + "".join(row) + "│" for row in page), "└" + "─" * columns + "┘"]
    return "\n".join([*rows, f" {legend}", _MARKS])


def _frame(core: MissionCore, fields: Fields) -> NDArray[np.uint8]:
    world, units = core.mission.world, core.mission.units
    width, height = round(world.width_m * _PIXELS_PER_M), round(world.height_m * _PIXELS_PER_M)
    x, y = np.meshgrid(np.arange(width) + 0.5, height - np.arange(height) - 0.5)
    x, y = x / _PIXELS_PER_M, y / _PIXELS_PER_M
    image = np.empty((height, width, 3), dtype=np.uint8)
    image[:] = _SOIL
    image[(np.abs(x % 20) < 0.5) | (np.abs(y % 20) < 0.5)] = (30, 35, 42)
    zone_x, zone_y, radius_m = fields.zone_x[0], fields.zone_y[0], world.zone.radius_m
    legend, share = _legend(core, fields)
    image[_disc(x, y, zone_x, zone_y, radius_m)] = _ZONE
    image[_disc(x, y, zone_x, zone_y, radius_m * np.sqrt(share))] = _HELD
    image[_ring(x, y, zone_x, zone_y, radius_m)] = _HELD
    for patrol in world.patrols:
        for start, end in zip(patrol.waypoints_m, patrol.waypoints_m[1:] + patrol.waypoints_m[:1], strict=True):
            image[_segment(x, y, *start, *end)] = _ROUTE
    for box in world.obstacles:
        image[_rectangle(x, y, *box.low_m, *box.high_m)] = _WALL
    for guard_x, guard_y in zip(fields.guard_x[:, 0], fields.guard_y[:, 0], strict=True):
        image[_ring(x, y, guard_x, guard_y, units.defender.tag_m)] = _GUARD
        image[_disc(x, y, guard_x, guard_y, 2.0)] = _GUARD
    for unit, name in enumerate(units.attackers):
        unit_x, unit_y = fields.x[unit, 0], fields.y[unit, 0]
        colour = (_GROUND if name == "ground" else _AIR) if fields.alive[unit, 0] else _DOWN
        if name == "ground":
            image[_rectangle(x, y, unit_x - 2.2, unit_y - 2.2, unit_x + 2.2, unit_y + 2.2)] = colour
        else:
            image[np.abs(x - unit_x) + np.abs(y - unit_y) < 3.2] = colour
    return np.vstack([image, _legend_strip(legend, share, width)])


def _legend_strip(legend: str, share: float, width: int) -> NDArray[np.uint8]:
    strip = np.zeros((_LEGEND_PX, width, 3), dtype=np.uint8)
    mask = _text_mask(legend, 2)[:, : width - 12]
    strip[10 : 10 + mask.shape[0], 6 : 6 + mask.shape[1]][mask] = _TEXT
    strip[:3] = _ZONE
    strip[:3, : round(share * width)] = _HELD
    return strip


def _disc(x: Floats, y: Floats, centre_x: float, centre_y: float, radius_m: float) -> Bools:
    return np.asarray((x - centre_x) ** 2 + (y - centre_y) ** 2 <= radius_m**2)


def _ring(x: Floats, y: Floats, centre_x: float, centre_y: float, radius_m: float) -> Bools:
    distance = np.sqrt((x - centre_x) ** 2 + (y - centre_y) ** 2)
    return np.asarray(np.abs(distance - radius_m) < 0.5)


def _rectangle(x: Floats, y: Floats, low_x: float, low_y: float, high_x: float, high_y: float) -> Bools:
    return (x >= low_x) & (x <= high_x) & (y >= low_y) & (y <= high_y)


def _segment(x: Floats, y: Floats, start_x: float, start_y: float, end_x: float, end_y: float) -> Bools:
    along_x, along_y = end_x - start_x, end_y - start_y
    length = along_x**2 + along_y**2 or 1.0
    part = np.clip(((x - start_x) * along_x + (y - start_y) * along_y) / length, 0.0, 1.0)
    return _disc(x - part * along_x, y - part * along_y, start_x, start_y, 0.5)


def _text_mask(text: str, scale: int) -> NDArray[np.bool_]:
    """Pixels of one line of text, `5 * scale` high; characters without a glyph are left blank."""
    gap = np.zeros((5, 1), dtype=np.bool_)
    columns = [part for char in text for part in (_GLYPHS.get(char, _GLYPHS[" "]), gap)]
    return np.kron(np.hstack(columns), np.ones((scale, scale), dtype=np.bool_))
